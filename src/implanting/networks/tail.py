"""All that stage 2 needs to know about a network: its implanted layers, as one small description.

A network offers the *base maps* that its implanted layers read; they are computed once per image and do not change.
Each of these layers gets an implant, which reads the same base map a and, if there is one, the implant below:

    i_l = pool(activation(BN(conv([a, i_below])) + i_added))

The last implant's output is concatenated to phi. The last blocks of ResNet-12 and C128F, the end of EfficientNet-Lite0
and the end of a user's own network are all described this way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from implanting.errors import ConfigError

Activation = Literal["swish", "relu", "relu6"]

Sizes = tuple[tuple[int, int], ...]
"""Rows and columns of each base map."""


@dataclass(frozen=True)
class ImplantedLayer:
    """A convolution of the network as its implant sees it."""

    reads: int
    """Number of the base map that it reads."""
    channels: int
    """Channels of that map."""
    kernel: int
    stride: int = 1
    below: int | None = None
    """Number of the implanted layer whose output it reads in addition to the base map; None for the first."""
    adds: int | None = None
    """Number of the implanted layer whose output is added before the activation: a residual connection."""
    activation: Activation | None = None
    pool: int = 1
    """Side of the max-pool that follows, which rounds down; 1 means that there is none."""


@dataclass(frozen=True)
class Tail:
    """The implanted layers in order: each reads only earlier ones, and the last gives the implants' channels of phi."""

    layers: tuple[ImplantedLayer, ...]

    def __post_init__(self) -> None:
        if not self.layers:
            raise ConfigError("the tail has no layer: name at least one convolution that gets an implant")
        for number, layer in enumerate(self.layers):
            for role, other in (("below", layer.below), ("adds", layer.adds)):
                if other is not None and not 0 <= other < number:
                    raise ConfigError(
                        f"implanted layer {number} says {role}={other}, but there is no such layer before it: "
                        f"give a number from 0 to {number - 1}, or None"
                    )


def strided(size: tuple[int, int], stride: int) -> tuple[int, int]:
    """Rows and columns after a convolution of this stride whose padding is half its kernel."""
    return -(-size[0] // stride), -(-size[1] // stride)


def check_fit(tail: Tail, sizes: Sequence[tuple[int, int]], phi: tuple[int, int]) -> None:
    """Refuse a tail whose implants would not have the size of the maps that they are joined with, or of phi."""
    outputs: list[tuple[int, int]] = []
    for number, layer in enumerate(tail.layers):
        size = sizes[layer.reads]
        if layer.below is not None and outputs[layer.below] != size:
            raise ConfigError(_unfit(number, f"the implant below it has {_in_words(outputs[layer.below])}", size))
        summed = strided(size, layer.stride)
        if layer.adds is not None and outputs[layer.adds] != summed:
            raise ConfigError(_unfit(number, f"what it adds has {_in_words(outputs[layer.adds])}", summed))
        outputs.append((summed[0] // layer.pool, summed[1] // layer.pool))
    if outputs[-1] != phi:
        raise ConfigError(_unfit(len(outputs) - 1, f"its output has {_in_words(outputs[-1])}", phi))


def _unfit(number: int, found: str, needed: tuple[int, int]) -> str:
    return f"implanted layer {number}: {found}, but {_in_words(needed)} are needed: describe its pool, below and adds"


def _in_words(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]} locations"
