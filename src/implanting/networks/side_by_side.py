"""Networks side by side, as one network: their maps of an image are joined.

All read the same image, at one size, and their maps have equally many locations. The pooled feature of each has unit
length, so that none outweighs another in the cosine, which is then the mean of their cosines. Implants would need one
description of several last layers, which does not exist, so only single networks have them.
"""

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from implanting.networks.efficientnet import EfficientNetLite

Images = Float[Tensor, "image channel height width"]

SILENT = 1e-12
"""A map whose mean is shorter than this is not scaled up: it is zero but for rounding."""


class SideBySide(nn.Module):
    """phi: the maps of several networks, each divided by the length of its mean, as one map of all their channels."""

    tail = None

    def __init__(self, members: Sequence[EfficientNetLite]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.dim = sum(member.dim for member in members)
        self.numbers_per_pixel = max(member.numbers_per_pixel for member in members)
        self.identity_text = "side by side: " + ", ".join(member.identity_text for member in members)
        self.thread_safe = all(member.thread_safe for member in members)

    def forward(self, x: Images) -> Float[Tensor, "image dim rows columns"]:
        return torch.cat([of_unit_mean(member(x)) for member in self.members], dim=1)

    def activations(
        self, x: Images
    ) -> tuple[list[Float[Tensor, "image _ _ _"]], Float[Tensor, "image dim rows columns"]]:
        """phi, and no maps, since there are no implants to read them."""
        return [], self(x)

    @property
    def reading_dims(self) -> tuple[int, ...]:
        """The length of each reading, one member after the other."""
        return tuple(dim for member in self.networks for dim in member.reading_dims)

    def readings(self, x: Images) -> list[Float[Tensor, "image _"]]:
        """The readings of each member, one member after the other."""
        return [reading for member in self.networks for reading in member.readings(x)]

    def reading_maps(self, x: Images) -> list[Float[Tensor, "image _ rows columns"]]:
        """Maps whose means over locations are the readings."""
        return [maps for member in self.networks for maps in member.reading_maps(x)]

    @property
    def networks(self) -> list[EfficientNetLite]:
        """The members."""
        return cast(list[EfficientNetLite], list(self.members))

    def map_size(self, height: int, width: int) -> tuple[int, int]:
        """The locations (rows, columns) of an image of this size, which are the same for every member."""
        return self.networks[0].map_size(height, width)


def of_unit_mean(maps: Images) -> Images:
    """Each image's map, divided by the length of its mean over locations."""
    return maps / maps.mean((2, 3), keepdim=True).norm(dim=1, keepdim=True).clamp_min(SILENT)
