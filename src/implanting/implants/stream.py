"""Implants: new channels beside every layer of a network's tail, for many tasks at once.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Generator, Tensor

from implanting.implants.shifts import sum_of_shifts
from implanting.implants.supports import BaseMaps, PooledMaps
from implanting.networks import Activation, ImplantedLayer, Sizes, Tail, strided

EPSILON = 1e-5
"""Added to variances in batch norm, as PyTorch does."""

Maps = Float[Tensor, "task image location _"]
Statistics = tuple[Float[Tensor, "task 1 1 out"], Float[Tensor, "task 1 1 out"]]


@dataclass
class Implant:
    """One implanted convolution of every task, with its batch norm.

    The weights of base inputs and of implant inputs stand apart: only the second are passed a gradient on.
    """

    kernel: int
    stride: int
    base_weight: Float[Tensor, "task base_channel taps_out"]
    implant_weight: Float[Tensor, "task implant_channel taps_out"] | None
    gamma: Float[Tensor, "task 1 1 out"]
    beta: Float[Tensor, "task 1 1 out"]
    statistics: Statistics | None = None
    """Variance and mean of each channel, once they are fixed."""

    def parameters(self) -> list[Tensor]:
        """What is trained."""
        weights = [self.base_weight, self.implant_weight, self.gamma, self.beta]
        return [weight for weight in weights if weight is not None]

    def convolve(self, base: Maps, implant: Maps | None, size: tuple[int, int]) -> PooledMaps:
        """The convolution of [base, implant], as one product and a sum of shifts."""
        spread = base.flatten(1, 2) @ self.base_weight
        if self.implant_weight is not None and implant is not None:
            spread = torch.baddbmm(spread, implant.flatten(1, 2), self.implant_weight)
        return sum_of_shifts(spread.unflatten(1, base.shape[1:3]), size, self.kernel, self.stride)

    def normalise(self, maps: Maps) -> Maps:
        """Batch norm, with the statistics of these images unless they were fixed before."""
        variance, mean = self.statistics or statistics_of(maps)
        return (maps - mean) * (torch.rsqrt(variance + EPSILON) * self.gamma) + self.beta

    def fix_and_normalise(self, maps: Maps) -> Maps:
        """Batch norm with the statistics of these images, which serve from now on."""
        self.statistics = statistics_of(maps)
        return self.normalise(maps)


def statistics_of(maps: Maps) -> Statistics:
    """Variance and mean of each channel over the images and locations of each task."""
    return torch.var_mean(maps, dim=(1, 2), correction=0, keepdim=True)


@dataclass
class Implants:
    """The implant stream of many tasks."""

    tail: Tail
    sizes: Sizes
    """Rows and columns of each base map."""
    layers: list[Implant]

    def parameters(self) -> list[Tensor]:
        """What is trained: all of it."""
        return [parameter for implant in self.layers for parameter in implant.parameters()]

    def __call__(self, base_maps: BaseMaps) -> PooledMaps:
        """The implant part of phi_wide for images of each task, from the base activations that the tail reads."""
        return self._stream(base_maps, Implant.normalise)

    def fix_statistics(self, base_maps: BaseMaps) -> PooledMaps:
        """Keep the batch-norm statistics of these images for all later calls; gives what the images become."""
        return self._stream(base_maps, Implant.fix_and_normalise)

    def _stream(self, base_maps: BaseMaps, normalise: Callable[[Implant, Maps], Maps]) -> PooledMaps:
        outputs: BaseMaps = []
        for layer, implant in zip(self.tail.layers, self.layers, strict=True):
            size = self.sizes[layer.reads]
            below = None if layer.below is None else outputs[layer.below]
            maps = normalise(implant, implant.convolve(base_maps[layer.reads], below, size))
            if layer.adds is not None:
                maps = maps + outputs[layer.adds]
            outputs.append(max_pool(activate(maps, layer.activation), strided(size, layer.stride), layer.pool))
        return outputs[-1]


def activate(maps: Maps, name: Activation | None) -> Maps:
    """Swish, ReLU, ReLU6 or nothing."""
    if name == "swish":
        return F.silu(maps)
    if name == "relu6":
        return F.relu6(maps)
    return F.relu(maps) if name == "relu" else maps


def max_pool(maps: Maps, size: tuple[int, int], side: int) -> PooledMaps:
    """Max-pool of side x side locations that rounds down."""
    if side == 1:
        return maps
    rows, columns = (length // side for length in size)
    grid = maps.unflatten(2, size)[:, :, : side * rows, : side * columns]
    return grid.unflatten(3, (columns, side)).unflatten(2, (rows, side)).amax((3, 5)).flatten(2, 3)


def new_implants(tail: Tail, sizes: Sizes, channels: int, generators: list[Generator]) -> Implants:
    """Fresh implants, one set for each generator: He initialisation with fan-in, gamma 1, beta 0."""

    def implant(layer: ImplantedLayer) -> Implant:
        taps, tasks, below = layer.kernel**2, len(generators), 0 if layer.below is None else channels
        deviation = math.sqrt(2 / (taps * (layer.channels + below)))
        drawn = [torch.randn(layer.channels + below, taps * channels, generator=one) for one in generators]
        base_weight, implant_weight = (torch.stack(drawn) * deviation).split([layer.channels, below], dim=1)
        return Implant(
            kernel=layer.kernel,
            stride=layer.stride,
            base_weight=base_weight.contiguous(),
            implant_weight=implant_weight.contiguous() if below else None,
            gamma=torch.ones(tasks, 1, 1, channels),
            beta=torch.zeros(tasks, 1, 1, channels),
        )

    return Implants(tail, sizes, [implant(layer) for layer in tail.layers])


def implant_tensors(implants: Implants) -> dict[str, Tensor]:
    """Trained implants, a tensor a name: `2.gamma`."""
    tensors: dict[str, Tensor] = {}
    for number, implant in enumerate(implants.layers):
        variance, mean = implant.statistics or (None, None)
        parts = {"base_weight": implant.base_weight, "implant_weight": implant.implant_weight}
        parts |= {"gamma": implant.gamma, "beta": implant.beta, "variance": variance, "mean": mean}
        tensors |= {f"{number}.{name}": value for name, value in parts.items() if value is not None}
    return tensors


def implants_from_tensors(tail: Tail, sizes: Sizes, tensors: Mapping[str, Tensor]) -> Implants:
    """The inverse of `implant_tensors`."""
    layers = [
        Implant(
            kernel=layer.kernel,
            stride=layer.stride,
            base_weight=tensors[f"{number}.base_weight"],
            implant_weight=tensors.get(f"{number}.implant_weight"),
            gamma=tensors[f"{number}.gamma"],
            beta=tensors[f"{number}.beta"],
            statistics=(tensors[f"{number}.variance"], tensors[f"{number}.mean"]),
        )
        for number, layer in enumerate(tail.layers)
    ]
    return Implants(tail, sizes, layers)


def joined(parts: Sequence[Implants]) -> Implants:
    """The trained implants of tasks that were adapted apart, in one."""
    named = [implant_tensors(part) for part in parts]
    tensors = {name: torch.cat([each[name] for each in named]) for name in named[0]}
    return implants_from_tensors(parts[0].tail, parts[0].sizes, tensors)
