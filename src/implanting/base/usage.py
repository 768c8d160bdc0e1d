"""How a base network is best used where the user does not say: what validation classes showed (`docs/lab-log.md`)."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from implanting.base.description import BaseDescription

PHOTO_SIDES = {32: 48}
"""The side at which larger images are seen better than at the trained one, by trained side."""

FEW_SHOTS = 3
"""With fewer supports a class, more views of each may help."""


@dataclass(frozen=True)
class Advice:
    """Defaults of one base network; those of these fields are for networks of which nothing is known."""

    implants_from_shots: int = 5
    """With how many supports a class implants help."""
    photo_side: int | None = None
    """The side at which images that are as large or larger are seen; None for the trained one."""
    few_shot_views: int = 1
    """Views of each support that a prototype averages where supports are few."""
    calibrations: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """How sure prototypes of so many supports a class may be."""

    def support_views(self, shots: int) -> int:
        """Views of each support that a prototype averages, with so many supports a class."""
        return self.few_shot_views if shots < FEW_SHOTS else 1

    def for_scaled_tau(self, factor: float) -> "Advice":
        """The same for a tau that is `factor` times as large: the powers of calibrations undo it."""
        told = {shots: {**stored, "power": stored["power"] / factor} for shots, stored in self.calibrations.items()}
        return dataclasses.replace(self, calibrations=told)


def advice_of(description: BaseDescription) -> Advice:
    """Of a network that stage 1 trained, as FC100's validation classes, photos and its own validation showed."""
    side, calibration = min(description.image_size), description.training.calibration
    return Advice(
        implants_from_shots=2,
        photo_side=None if description.config.pooling == "flatten" else PHOTO_SIDES.get(side),
        calibrations={1: calibration} if calibration else {},
    )
