"""All that stage 2 needs to know of a network: its implanted layers, as one small description.

A network offers the *base maps* that its implanted layers read, captured once for each image and frozen. Beside layer l
of the network stands its implant, which reads the same base map a and, where there is one, the implant below:

    i_l = pool(activation(BN(conv([a, i_below])) + i_added))

The last implant's output stands beside phi. ResNet-12's last block, C128F's and the end of EfficientNet-Lite0 are
described so, and so is the end of a user's own network.
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
    """Which of the base maps it reads."""
    channels: int
    """Channels of that map."""
    kernel: int
    stride: int = 1
    below: int | None = None
    """The implanted layer whose output it reads beside the base map; None for the first."""
    adds: int | None = None
    """The implanted layer whose output is added before the activation: a residual connection."""
    activation: Activation | None = None
    pool: int = 1
    """Side of the max-pool that follows, which rounds down; 1 is none."""


@dataclass(frozen=True)
class Tail:
    """The implanted layers in turn: each reads only from those before it, the last gives the implant part of phi."""

    layers: tuple[ImplantedLayer, ...]

    def __post_init__(self) -> None:
        if not self.layers:
            raise ConfigError("a tail without a layer: name at least one convolution to implant beside")
        for number, layer in enumerate(self.layers):
            for role, other in (("below", layer.below), ("adds", layer.adds)):
                if other is not None and not 0 <= other < number:
                    raise ConfigError(
                        f"implanted layer {number} says {role}={other}, but there is no such layer before it: "
                        f"give a number from 0 to {number - 1}, or None"
                    )


def strided(size: tuple[int, int], stride: int) -> tuple[int, int]:
    """Rows and columns that a convolution of this stride leaves, half a kernel being added on every side."""
    return -(-size[0] // stride), -(-size[1] // stride)


def check_fit(tail: Tail, sizes: Sequence[tuple[int, int]], phi: tuple[int, int]) -> None:
    """Refuse a tail whose implants would not fit the maps beside which they stand, or phi."""
    outputs: list[tuple[int, int]] = []
    for number, layer in enumerate(tail.layers):
        size = sizes[layer.reads]
        if layer.below is not None and outputs[layer.below] != size:
            raise ConfigError(_unfit(number, f"the implant below it has {of(outputs[layer.below])}", size))
        summed = strided(size, layer.stride)
        if layer.adds is not None and outputs[layer.adds] != summed:
            raise ConfigError(_unfit(number, f"what it adds has {of(outputs[layer.adds])}", summed))
        outputs.append((summed[0] // layer.pool, summed[1] // layer.pool))
    if outputs[-1] != phi:
        raise ConfigError(_unfit(len(outputs) - 1, f"its output has {of(outputs[-1])}", phi))


def _unfit(number: int, found: str, needed: tuple[int, int]) -> str:
    """What is wrong with the sizes of a described tail."""
    return f"implanted layer {number}: {found}, but {of(needed)} are needed: describe its pool, below and adds"


def of(size: tuple[int, int]) -> str:
    """A size for people."""
    return f"{size[0]} x {size[1]} locations"
