"""ResNet-12 (the variant of TADAM), C128F and C64F: embedding networks phi as lists of blocks.

The choices made, where papers and public code disagree (`docs/decisions/0002-network-details.md`):
every block ends in a 2x2 max-pool that rounds down, so 84 px give 5x5 locations (the last one can be left out:
10x10); ResNet-12's shortcut is a 1x1
convolution with batch norm and no activation, and the sum is activated before pooling; C128F has no ReLU after its
last batch norm. No convolution has a bias: batch norm follows each.

Several members of one width can be joined into one network of grouped convolutions: each reads the image and its own
channels only, and their features are concatenated, each member's times a factor (`balance`). Implants read the channels
of all members.

A network knows nothing of classes, pooling or preprocessing. It maps normalised images to feature maps.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from implanting.config import WIDE_CHANNELS, NetworkConfig
from implanting.errors import ImageTooSmall
from implanting.networks.tail import Activation, ImplantedLayer, Tail

Change = Callable[[Tensor], Tensor]
"""Made of a map before its activation, as by systems that condition a network on a task."""


TINY = 1e-12
"""Smaller generalised means are raised to this value, so that a channel that is nowhere positive reads zero."""


def unchanged(maps: Tensor) -> Tensor:
    """The map itself."""
    return maps


def convolution(
    channels_in: int, channels_out: int, kernel: int, members: int = 1, *, first: bool = False
) -> nn.Conv2d:
    """A convolution that keeps the map's size, initialised as He et al. with fan-out: N(0, 2 / (kernel^2 * out)).

    Each member has its share of the channels; what the first layers read, the image, is read by all.
    """
    groups = 1 if first else members
    layer = nn.Conv2d(channels_in, channels_out, kernel, padding=kernel // 2, groups=groups, bias=False)
    nn.init.normal_(layer.weight, std=math.sqrt(2 * members / (kernel**2 * channels_out)))
    return layer


class ResidualBlock(nn.Module):
    """Three 3x3 convolutions with batch norm and swish, a 1x1 shortcut, then a max-pool over `pool` x `pool`."""

    def __init__(
        self, channels_in: int, channels_out: int, members: int = 1, *, first: bool = False, pool: int = 2
    ) -> None:
        super().__init__()
        self.pool = pool
        self.conv1 = convolution(channels_in, channels_out, 3, members, first=first)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = convolution(channels_out, channels_out, 3, members)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.conv3 = convolution(channels_out, channels_out, 3, members)
        self.norm3 = nn.BatchNorm2d(channels_out)
        self.shortcut = convolution(channels_in, channels_out, 1, members, first=first)
        self.shortcut_norm = nn.BatchNorm2d(channels_out)
        self.swish1, self.swish2, self.swish3 = (
            nn.SiLU(),
            nn.SiLU(),
            nn.SiLU(),
        )  # modules, so that `frozen.py` can find them

    def activations(self, x: Float[Tensor, "image channel height width"], change: Change = unchanged) -> list[Tensor]:
        """The activations of the three convolutions: a_1 and a_2 at the input's size, and the pooled output a_3.

        `change` is applied to the output of the batch norm of each 3x3 convolution.
        """
        a1 = self.swish1(change(self.norm1(self.conv1(x))))
        a2 = self.swish2(change(self.norm2(self.conv2(a1))))
        a3 = self.swish3(change(self.norm3(self.conv3(a2))) + self.shortcut_norm(self.shortcut(x)))
        return [a1, a2, _pooled(a3, self.pool)]

    def tail(self) -> Tail:
        """The description of this block's layers, for their implants."""
        channels_in, channels = self.conv1.in_channels, self.conv1.out_channels
        return Tail(
            (
                ImplantedLayer(0, channels_in, 3, activation="swish"),
                ImplantedLayer(1, channels, 3, below=0, activation="swish"),
                ImplantedLayer(2, channels, 3, below=1),
                ImplantedLayer(0, channels_in, 1, adds=2, activation="swish", pool=self.pool),  # the shortcut
            )
        )

    def forward(self, x: Float[Tensor, "image channel height width"]) -> Tensor:
        return self.activations(x)[-1]


class PlainBlock(nn.Module):
    """A 3x3 convolution with batch norm, ReLU (except in the last block) and a max-pool over `pool` x `pool`."""

    def __init__(
        self, channels_in: int, channels_out: int, members: int = 1, *, relu: bool, first: bool = False, pool: int = 2
    ) -> None:
        super().__init__()
        self.pool = pool
        self.conv1 = convolution(channels_in, channels_out, 3, members, first=first)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU() if relu else None

    def activations(self, x: Float[Tensor, "image channel height width"], change: Change = unchanged) -> list[Tensor]:
        """The pooled activation of the block's one convolution; `change` is applied to what batch norm gives."""
        a1 = change(self.norm1(self.conv1(x)))
        return [_pooled(self.relu(a1) if self.relu is not None else a1, self.pool)]

    def tail(self) -> Tail:
        """The description of this block's layer, for its implant."""
        activation: Activation | None = "relu" if self.relu is not None else None
        return Tail((ImplantedLayer(0, self.conv1.in_channels, 3, activation=activation, pool=self.pool),))

    def forward(self, x: Float[Tensor, "image channel height width"]) -> Tensor:
        return self.activations(x)[-1]


def _pooled(maps: Tensor, side: int) -> Tensor:
    return maps if side == 1 else F.max_pool2d(maps, side)


class Network(nn.Module):
    """phi: images to feature maps, block by block."""

    balance: Tensor | None
    """The factor of each channel of phi where there are several members, so that none outweighs another."""

    def __init__(self, blocks: Sequence[ResidualBlock | PlainBlock], dim: int, members: int = 1) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.dim = dim
        self.register_buffer("balance", torch.ones(dim, 1, 1) if members > 1 else None)
        self.numbers_per_pixel = blocks[0].conv1.out_channels
        """Size of the largest map, which is the first block's, in numbers per pixel of the image."""
        self.identity_text = ""
        self.thread_safe = True
        self.tail = blocks[-1].tail()
        self.trains_in_bf16 = False
        """Whether maps are computed in bf16 in training mode: mixed precision, as weights and phi stay single."""
        self.reads_gem = False
        """Whether readings have the generalised mean of phi besides its mean."""

    def forward(
        self, x: Float[Tensor, "image channel height width"]
    ) -> Float[Tensor, "image dim out_height out_width"]:
        with self._mixed(x):
            phi = self.blocks[-1](self.before_last(x))
        return self._balanced(phi.float())

    def _mixed(self, x: Tensor) -> AbstractContextManager[object]:
        """The precision of training; otherwise the caller's, as `autocast` switched off would undo the caller's own."""
        if self.trains_in_bf16 and self.training:
            return torch.autocast(x.device.type, torch.bfloat16)
        return nullcontext()

    def _balanced(self, phi: Tensor) -> Tensor:
        return phi if self.balance is None else phi * self.balance

    def changed(self, x: Float[Tensor, "image channel height width"], change: Change) -> Tensor:
        """phi with `change` applied to the output of the batch norm of every convolution but the shortcuts, in turn."""
        with self._mixed(x):
            for block in self.blocks:
                x = cast(ResidualBlock | PlainBlock, block).activations(x, change)[-1]
        return self._balanced(x.float())

    def before_last(self, x: Float[Tensor, "image channel height width"]) -> Tensor:
        """z, the map that the last block and its implants read."""
        for block in self.blocks[:-1]:
            x = block(x)
        return x

    def activations(
        self, x: Float[Tensor, "image channel height width"]
    ) -> tuple[list[Float[Tensor, "image _ map_height map_width"]], Float[Tensor, "image dim out_height out_width"]]:
        """The maps that the last block's convolutions read (its input z, then a_1, a_2, ...), and phi."""
        z = self.before_last(x)
        *activations, phi = cast(ResidualBlock | PlainBlock, self.blocks[-1]).activations(z)
        return [z, *activations], self._balanced(phi)

    @property
    def reading_dims(self) -> tuple[int, ...]:
        """How many numbers each reading has."""
        return (self.dim, self.dim) if self.reads_gem else (self.dim,)

    def readings(self, x: Float[Tensor, "image channel height width"]) -> list[Float[Tensor, "image dim"]]:
        """The mean of phi over locations, and its generalised mean (the root of the mean of squares of what is
        positive) if that is read too."""
        return [maps.mean((2, 3)) for maps in self.reading_maps(x)]

    def reading_maps(self, x: Float[Tensor, "image channel height width"]) -> list[Tensor]:
        """Maps whose means over locations are the readings: phi, and the squares divided by the generalised mean."""
        phi = self(x)
        if not self.reads_gem:
            return [phi]
        squares = phi.clamp_min(0).square()
        return [phi, squares / squares.mean((2, 3), keepdim=True).sqrt().clamp_min(TINY)]

    def map_size(self, height: int, width: int) -> tuple[int, int]:
        """The locations (rows, columns) of an image of this size."""
        shrink = math.prod(block.pool for block in cast(Sequence[ResidualBlock | PlainBlock], self.blocks))
        if min(height, width) < shrink:
            raise ImageTooSmall(
                f"an image of {width} x {height} px has no location left after all poolings: "
                f"at least {shrink} x {shrink} px are needed; set `image_size` to {shrink} or more"
            )
        return height // shrink, width // shrink


def resnet12(width: int = 64, wide: bool = False, members: int = 1, last_pool: bool = True) -> Network:
    """Four residual blocks of width, 2, 4 and 8 times width channels (TADAM; the paper's width is 64)."""
    pairs = _channels((1, 2, 4, 8), width, wide, members)
    blocks = [ResidualBlock(*pair, members, first=first, pool=pool) for pair, first, pool in _placed(pairs, last_pool)]
    return Network(blocks, pairs[-1][1], members)


def c128f(width: int = 64, wide: bool = False, members: int = 1, last_pool: bool = True) -> Network:
    """Four convolutions of width, width, 2 and 2 times width channels (Gidaris & Komodakis)."""
    return _plain(_channels((1, 1, 2, 2), width, wide, members), members, last_pool, last_relu=False)


def c64f(width: int = 64, wide: bool = False, members: int = 1, last_pool: bool = True) -> Network:
    """Four convolutions of width channels, each with a ReLU (Vinyals et al. 2016, Snell et al. 2017)."""
    return _plain(_channels((1, 1, 1, 1), width, wide, members), members, last_pool, last_relu=True)


def _plain(pairs: Sequence[tuple[int, int]], members: int, last_pool: bool, *, last_relu: bool) -> Network:
    blocks = [
        PlainBlock(*pair, members, relu=last_relu or pair is not pairs[-1], first=first, pool=pool)
        for pair, first, pool in _placed(pairs, last_pool)
    ]
    return Network(blocks, pairs[-1][1], members)


def _channels(multiples: Sequence[int], width: int, wide: bool, members: int) -> list[tuple[int, int]]:
    """Channels that each block reads and gives, summed over members."""
    *channels, last = (members * multiple * width for multiple in multiples)
    return list(pairwise([3, *channels, last + WIDE_CHANNELS * wide]))


def _placed(pairs: Sequence[tuple[int, int]], last_pool: bool) -> list[tuple[tuple[int, int], bool, int]]:
    """The channels of each block, whether it is the first, and the side of its max-pool."""
    return [(pair, pair is pairs[0], 2 if last_pool or pair is not pairs[-1] else 1) for pair in pairs]


NETWORKS = {"resnet12": resnet12, "c128f": c128f, "c64f": c64f}


def build_network(config: NetworkConfig) -> Network:
    """The network that a configuration describes, freshly initialised from torch's generator."""
    return NETWORKS[config.network](config.width, config.wide, config.members, config.last_pool)
