"""Lay a score map over its image: the image in grey, the scores in colour, red = high.

The style is that of the paper's Figure 3: the grey image at opacity 0.7 on white, the colours over it at opacity 0.45.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

GREY_OPACITY = 0.7
"""Opacity of the image on white."""

COLOUR_OPACITY = 0.45
"""Opacity of the colours on the image."""

COLOURS = "jet"
"""The colour map, by matplotlib's name; smoother ones (turbo) end in dark shades that turn muddy on grey."""

Pixels = UInt8[np.ndarray, "height width 3"]
ScoreMap = Float[np.ndarray, "rows columns"]


class Limits(NamedTuple):
    """The scores at the ends of the colour scale."""

    low: float
    high: float

    @classmethod
    def of(cls, scores: Float[np.ndarray, "..."]) -> "Limits":
        """Make one scale for all these scores, so that their colours can be compared."""
        low, high = float(scores.min()), float(scores.max())
        return cls(low, high) if high > low else cls(low - 0.5, high + 0.5)  # equal scores: the middle of the scale


class Box(NamedTuple):
    """A part of an image, in pixels; `right` and `bottom` are the first pixels outside."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.right - self.left, self.bottom - self.top

    def scaled(self, factor: float) -> "Box":
        """Return the same part of the image at another scale."""
        return Box(*(round(factor * edge) for edge in self))


def centre_square(height: int, width: int) -> Box:
    """Return the centre square, the part of an image that a network sees after scaling and cropping."""
    side = min(height, width)
    left, top = (width - side) // 2, (height - side) // 2
    return Box(left, top, left + side, top + side)


def fit(image: Pixels, side: int) -> UInt8[np.ndarray, "new_height new_width 3"]:
    """Scale the image so that its longer side has `side` pixels."""
    height, width = image.shape[:2]
    factor = side / max(height, width)
    size = max(1, round(factor * width)), max(1, round(factor * height))
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.LANCZOS))


def upsample(scores: ScoreMap, size: tuple[int, int]) -> Float[np.ndarray, "height width"]:
    """Interpolate bilinearly between the centres of the locations, to (width, height) pixels."""
    return np.asarray(Image.fromarray(scores.astype(np.float32)).resize(size, Image.Resampling.BILINEAR))


def _colour(scores: Float[np.ndarray, "height width"], limits: Limits) -> Float[np.ndarray, "height width 3"]:
    """Return the colour of each score, 0 to 255."""
    from matplotlib import colormaps  # slow to import, and needed here only

    return 255 * colormaps[COLOURS]((scores - limits.low) / (limits.high - limits.low))[..., :3]


def overlay(image: Pixels, scores: ScoreMap, limits: Limits, box: Box | None = None) -> Pixels:
    """Lay the scores over the part of the image that they cover (default: all of it); the rest stays grey."""
    height, width = image.shape[:2]
    box = box or Box(0, 0, width, height)
    grey = np.asarray(Image.fromarray(image).convert("L"), dtype=np.float32)[..., None].repeat(3, axis=2)
    page = GREY_OPACITY * grey + (1 - GREY_OPACITY) * 255
    covered = page[box.top : box.bottom, box.left : box.right]
    covered += COLOUR_OPACITY * (_colour(upsample(scores, box.size), limits) - covered)
    return np.rint(page).astype(np.uint8)


def scale_colours(steps: int) -> UInt8[np.ndarray, "{steps} 3"]:
    """Return the colours from low to high, as they look on a grey image."""
    scores = np.linspace(0, 1, steps, dtype=np.float32)[None]
    return overlay(np.full((1, steps, 3), 128, np.uint8), scores, Limits(0, 1))[0]
