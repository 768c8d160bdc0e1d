"""`Explanation`: why an image was assigned to a class, as maps and as a picture."""

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int, UInt8

from implanting.errors import ConfigError
from implanting.heatmap.layout import DPI, PICTURE, Panel, encoded, percent, row_figure, save_figure
from implanting.heatmap.maps import SCALE_LABELS, MapKind
from implanting.heatmap.overlay import Box, Limits, fit, overlay

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Explanation:
    """Maps of the locations at which an image resembles each of some classes."""

    image: UInt8[np.ndarray, "height width 3"]
    map: Float[np.ndarray, "way rows columns"]
    """The score of each location for each class."""
    classes: tuple[Hashable, ...]
    probabilities: Float[np.ndarray, " way"]
    kind: MapKind = "similarity"
    box: Box | None = None
    """The part of the image that the maps cover; None means all of it."""

    @property
    def limits(self) -> Limits:
        """The colour scale, common to all maps."""
        return Limits.of(self.map)

    def top(self, count: int) -> "Explanation":
        """Keep only the `count` most probable classes, the most probable first."""
        return self._take(np.argsort(-self.probabilities, kind="stable")[:count])

    def only(self, labels: Sequence[Hashable]) -> "Explanation":
        """Keep only these classes, in this order."""
        if unknown := [label for label in labels if label not in self.classes]:
            known = ", ".join(map(str, self.classes[:5])) + ", ..." * (len(self.classes) > 5)
            raise ConfigError(f"there is no class '{unknown[0]}' to explain; the classes are {known}: name one of them")
        return self._take(np.array([self.classes.index(label) for label in labels]))

    def overlays(self, side: int | None = None, limits: Limits | None = None) -> UInt8[np.ndarray, "way _ _ 3"]:
        """Lay each map over the image, its longer side scaled to `side` pixels."""
        side = side or max(self.image.shape[:2])
        image, box = fit(self.image, side), self.box and self.box.scaled(side / max(self.image.shape[:2]))
        return np.stack([overlay(image, scores, limits or self.limits, box) for scores in self.map])

    def figure(self) -> "Figure":
        """Draw the image, then each class with its probability, and the scale."""
        side = round(PICTURE * DPI)
        panels = [Panel(fit(self.image, side), "image")]
        for picture, label, probability in zip(self.overlays(side), self.classes, self.probabilities, strict=True):
            panels.append(Panel(picture, str(label), percent(float(probability))))
        return row_figure(panels, self.limits, SCALE_LABELS[self.kind])

    def save(self, path: str | Path, dpi: int = DPI) -> None:
        """Write the figure as png, jpg, pdf, svg or webp, according to the path's extension."""
        save_figure(self.figure(), path, dpi)

    def _repr_png_(self) -> bytes:
        """The picture that a notebook shows."""
        return encoded(self.figure(), "png", DPI)

    def _take(self, chosen: Int[np.ndarray, " chosen"]) -> "Explanation":
        return dataclasses.replace(
            self,
            map=self.map[chosen],
            classes=tuple(self.classes[number] for number in chosen),
            probabilities=self.probabilities[chosen],
        )
