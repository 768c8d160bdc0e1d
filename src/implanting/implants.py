"""Implants: new channels in every convolution of the last block, for many tasks at once.

The implant of a layer reads the base activation below it and the implant below it; the base stream never sees the
implants. In the last block of ResNet-12, with z the block's input and [ , ] the concatenation of channels:

    i_1 = swish(BN(conv3x3(z)))    i_2 = swish(BN(conv3x3([a_1, i_1])))
    i_3 = maxpool(swish(BN(conv3x3([a_2, i_2])) + BN(conv1x1(z))))    phi_wide = [a_3, i_3]

Tasks are the first axis of every tensor, and nothing mixes them. A map is [task image location channel]. A convolution
is one matrix product with all its taps side by side, then a sum of shifted maps: so it runs at the speed of the
machine's matrix multiplication, where a convolution to 16 channels does not
(`docs/decisions/0005-implant-convolutions.md`). Base activations are constants: no gradient is computed for them.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Generator, Tensor

from implanting.networks import ImplantedLayer, Tail
from implanting.shifts import sum_of_shifts

EPSILON = 1e-5
"""Added to variances in batch norm, as PyTorch does."""

Maps = Float[Tensor, "task image location _"]
PooledMaps = Float[Tensor, "task image pooled _"]


@dataclass
class Implant:
    """One implanted convolution of every task, with its batch norm.

    The weights of base inputs and of implant inputs stand apart: only the second are passed a gradient on.
    """

    kernel: int
    base_weight: Float[Tensor, "task base_channel taps_out"]
    implant_weight: Float[Tensor, "task implant_channel taps_out"] | None
    gamma: Float[Tensor, "task 1 1 out"]
    beta: Float[Tensor, "task 1 1 out"]
    statistics: tuple[Float[Tensor, "task 1 1 out"], Float[Tensor, "task 1 1 out"]] | None = None
    """Variance and mean of each channel, once they are fixed."""

    def parameters(self) -> list[Tensor]:
        """What is trained."""
        weights = [self.base_weight, self.implant_weight, self.gamma, self.beta]
        return [weight for weight in weights if weight is not None]

    def __call__(self, base: Maps, implant: Maps | None, size: tuple[int, int], fix: bool) -> Maps:
        """Convolution and batch norm, with the statistics of these images unless they were fixed before."""
        spread = base.flatten(1, 2) @ self.base_weight
        if self.implant_weight is not None and implant is not None:
            spread = torch.baddbmm(spread, implant.flatten(1, 2), self.implant_weight)
        maps = sum_of_shifts(spread.unflatten(1, base.shape[1:3]), size, self.kernel)
        variance, mean = self.statistics or torch.var_mean(maps, dim=(1, 2), correction=0, keepdim=True)
        if fix:
            self.statistics = variance, mean
        return (maps - mean) * (torch.rsqrt(variance + EPSILON) * self.gamma) + self.beta


@dataclass
class Implants:
    """The implant stream of many tasks."""

    tail: Tail
    size: tuple[int, int]
    """Rows and columns of the maps before pooling."""
    layers: list[Implant]
    shortcut: Implant | None

    def parameters(self) -> list[Tensor]:
        """What is trained: all of it."""
        shortcut = [self.shortcut] if self.shortcut else []
        return [parameter for implant in self.layers + shortcut for parameter in implant.parameters()]

    def __call__(self, base_maps: list[Maps], fix: bool = False) -> PooledMaps:
        """The implant part of phi_wide for images of each task, from the base activations that the tail reads.

        With `fix`, the batch-norm statistics of these images are kept and serve all later calls.
        """
        reads = [base_maps[layer.reads] for layer in self.tail.layers]
        maps = self.layers[0](reads[0], None, self.size, fix)
        for implant, base in zip(self.layers[1:], reads[1:], strict=True):
            maps = implant(base, activate(maps, self.tail.activation), self.size, fix)
        if self.shortcut is not None and self.tail.shortcut is not None:
            maps = maps + self.shortcut(base_maps[self.tail.shortcut.reads], None, self.size, fix)
        return max_pool(activate(maps, self.tail.last_activation), self.size)


def activate(maps: Maps, name: str | None) -> Maps:
    """Swish, ReLU or nothing."""
    if name == "swish":
        return F.silu(maps)
    return F.relu(maps) if name == "relu" else maps


def max_pool(maps: Maps, size: tuple[int, int]) -> PooledMaps:
    """2x2 max-pool that rounds down."""
    rows, columns = (side // 2 for side in size)
    grid = maps.unflatten(2, size)[:, :, : 2 * rows, : 2 * columns]
    return grid.unflatten(3, (columns, 2)).unflatten(2, (rows, 2)).amax((3, 5)).flatten(2, 3)


def new_implants(tail: Tail, size: tuple[int, int], channels: int, generators: list[Generator]) -> Implants:
    """Fresh implants, one set for each generator: He initialisation with fan-in, gamma 1, beta 0."""

    def implant(layer: ImplantedLayer, below: int) -> Implant:
        taps, tasks = layer.kernel**2, len(generators)
        deviation = math.sqrt(2 / (taps * (layer.channels + below)))
        drawn = [torch.randn(layer.channels + below, taps * channels, generator=one) for one in generators]
        base_weight, implant_weight = (torch.stack(drawn) * deviation).split([layer.channels, below], dim=1)
        return Implant(
            kernel=layer.kernel,
            base_weight=base_weight.contiguous(),
            implant_weight=implant_weight.contiguous() if below else None,
            gamma=torch.ones(tasks, 1, 1, channels),
            beta=torch.zeros(tasks, 1, 1, channels),
        )

    layers = [implant(layer, channels if number else 0) for number, layer in enumerate(tail.layers)]
    return Implants(tail, size, layers, implant(tail.shortcut, 0) if tail.shortcut else None)
