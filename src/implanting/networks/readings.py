"""Readings: further vectors that one pass of a network gives for an image, in addition to phi.

A network may offer several, from several layers; any other network has one reading, the mean of phi. Each is the
mean of a map over locations, so that a score that is linear in readings can be shown where it comes from.
"""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from implanting.networks.phi import Embedding

Images = Float[Tensor, "image 3 height width"]


@runtime_checkable
class Readable(Protocol):
    """A network that offers readings of its own."""

    @property
    def reading_dims(self) -> tuple[int, ...]:
        """How many numbers each reading has."""

    def readings(self, x: Images, /) -> list[Float[Tensor, "image _"]]:
        """The readings of normalised images, in one pass."""

    def reading_maps(self, x: Images, /) -> list[Float[Tensor, "image _ rows columns"]]:
        """Maps whose means over locations are the readings."""


def reading_dims(network: Embedding) -> tuple[int, ...]:
    """How many numbers each reading of a network has."""
    return network.reading_dims if isinstance(network, Readable) else (network.dim,)


def readings(network: Embedding, x: Images) -> list[Float[Tensor, "image _"]]:
    """The readings that a network offers, or the mean of phi."""
    return network.readings(x) if isinstance(network, Readable) else [network(x).mean((2, 3))]


def reading_maps(network: Embedding, x: Images) -> list[Float[Tensor, "image _ rows columns"]]:
    """Maps whose means over locations are the readings."""
    return network.reading_maps(x) if isinstance(network, Readable) else [network(x)]
