"""Implants: new channels in parallel to every layer of a network's tail, for many tasks at once.

The implant of a layer reads the base activation below it and the implant below it; the base stream never sees the
implants. In the last block of ResNet-12, with z the block's input and [ , ] the concatenation of channels:

    i_1 = swish(BN(conv3x3(z)))    i_2 = swish(BN(conv3x3([a_1, i_1])))
    i_3 = maxpool(swish(BN(conv3x3([a_2, i_2])) + BN(conv1x1(z))))    phi_wide = [a_3, i_3]

Tasks are the first axis of every input and output tensor, and nothing mixes them. In between, the channels of all tasks
are put side by side, so that one batch norm, activation and max-pool serves all of them, and a convolution between
implants is one grouped convolution (`docs/decisions/0012-speed-code.md`). Base activations are constants: they need no
gradient, and the convolution of each task reads them as a view, without a copy.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Generator, Tensor

from implanting.implants.activations import BaseMaps, PooledMaps
from implanting.networks import Activation, ImplantedLayer, Sizes, Tail

EPSILON = 1e-5
"""Added to variances in batch norm; PyTorch's default."""

Maps = Float[Tensor, "task image location _"]
Statistics = tuple[Float[Tensor, "task 1 1 out"], Float[Tensor, "task 1 1 out"]]
SideBySide = Float[Tensor, "image task_channel _ _"]
"""Maps of all tasks, with equally many images each: the channels of the first task, then those of the second, ..."""


@dataclass
class Implant:
    """One implanted convolution of every task, with its batch norm.

    Weights that read base maps are separate from those that read implants: only the latter pass a gradient down.
    """

    stride: int
    base_weight: Float[Tensor, "task out base_channel kernel kernel"]
    implant_weight: Float[Tensor, "task out implant_channel kernel kernel"] | None
    gamma: Float[Tensor, "task 1 1 out"]
    beta: Float[Tensor, "task 1 1 out"]
    statistics: Statistics | None = None
    """Variance and mean of each channel, once they have been fixed."""

    def parameters(self) -> list[Tensor]:
        """The trained tensors."""
        weights = [self.base_weight, self.implant_weight, self.gamma, self.beta]
        return [weight for weight in weights if weight is not None]

    def convolve(self, base: Maps, below: SideBySide | None, size: tuple[int, int]) -> SideBySide:
        """The sum of the convolutions of the base map and of the implant below, for all tasks side by side."""
        grids = base.unflatten(2, size).permute(0, 1, 4, 2, 3)
        tasks = zip(grids, self.base_weight, strict=True)
        maps = torch.cat([self._convolve(grid, weight) for grid, weight in tasks], dim=1)
        if self.implant_weight is None or below is None:
            return maps
        return maps + self._convolve(below, self.implant_weight.flatten(0, 1), groups=len(base))

    def _convolve(self, maps: Tensor, weight: Tensor, groups: int = 1) -> Tensor:
        return F.conv2d(maps, weight, stride=self.stride, padding=weight.shape[-1] // 2, groups=groups)

    def normalise(self, maps: SideBySide) -> SideBySide:
        """Batch norm with the statistics of these images, or with fixed ones if there are any."""
        gamma, beta = self.gamma.flatten(), self.beta.flatten()
        if self.statistics is None:
            return F.batch_norm(maps, None, None, gamma, beta, training=True, eps=EPSILON)
        variance, mean = (part.flatten() for part in self.statistics)
        return F.batch_norm(maps, mean, variance, gamma, beta, eps=EPSILON)

    def fix_and_normalise(self, maps: SideBySide) -> SideBySide:
        """Fix the statistics to those of these images, for this and all later calls, and normalise."""
        variance, mean = torch.var_mean(maps, dim=(0, 2, 3), correction=0)
        self.statistics = variance.view_as(self.gamma), mean.view_as(self.gamma)
        return self.normalise(maps)


@dataclass
class Implants:
    """The implant stream of many tasks."""

    tail: Tail
    sizes: Sizes
    """Rows and columns of each base map."""
    layers: list[Implant]
    weight: Float[Tensor, " task"] | None = None
    """Factor of their channels of phi_wide, once they are trained; None is 1."""

    def parameters(self) -> list[Tensor]:
        """The trained tensors of all layers."""
        return [parameter for implant in self.layers for parameter in implant.parameters()]

    def __call__(self, base_maps: BaseMaps) -> PooledMaps:
        """The implants' channels of phi_wide for the images of each task, from the base maps that the tail reads."""
        return self._stream(base_maps, Implant.normalise)

    def fix_statistics(self, base_maps: BaseMaps) -> PooledMaps:
        """Fix the batch-norm statistics to those of these images, for all later calls; returns their maps."""
        return self._stream(base_maps, Implant.fix_and_normalise)

    def _stream(self, base_maps: BaseMaps, normalise: Callable[[Implant, SideBySide], SideBySide]) -> PooledMaps:
        outputs: list[SideBySide] = []
        for layer, implant in zip(self.tail.layers, self.layers, strict=True):
            below = None if layer.below is None else outputs[layer.below]
            maps = normalise(implant, implant.convolve(base_maps[layer.reads], below, self.sizes[layer.reads]))
            if layer.adds is not None:
                maps = maps + outputs[layer.adds]
            maps = activate(maps, layer.activation)
            outputs.append(maps if layer.pool == 1 else F.max_pool2d(maps, layer.pool))
        phi = outputs[-1].unflatten(1, (len(base_maps[0]), -1)).permute(1, 0, 3, 4, 2).flatten(2, 3)
        return phi if self.weight is None else self.weight[:, None, None, None] * phi


def activate(maps: Tensor, name: Activation | None) -> Tensor:
    """Swish, ReLU, ReLU6 or nothing."""
    if name == "swish":
        return F.silu(maps)
    if name == "relu6":
        return F.relu6(maps)
    return F.relu(maps) if name == "relu" else maps


def new_implants(tail: Tail, sizes: Sizes, channels: int, generators: list[Generator]) -> Implants:
    """Fresh implants, one set per generator: He initialisation with fan-in, gamma 1, beta 0."""

    def implant(layer: ImplantedLayer) -> Implant:
        taps, tasks, below = layer.kernel**2, len(generators), 0 if layer.below is None else channels
        deviation = math.sqrt(2 / (taps * (layer.channels + below)))
        drawn = [torch.randn(layer.channels + below, taps * channels, generator=one) for one in generators]
        base_weight, implant_weight = (torch.stack(drawn) * deviation).split([layer.channels, below], dim=1)
        return Implant(
            stride=layer.stride,
            base_weight=_kernels_of(base_weight, layer.kernel),
            implant_weight=_kernels_of(implant_weight, layer.kernel) if below else None,
            gamma=torch.ones(tasks, 1, 1, channels),
            beta=torch.zeros(tasks, 1, 1, channels),
        )

    return Implants(tail, sizes, [implant(layer) for layer in tail.layers])


def _kernels_of(
    weight: Float[Tensor, "task channel taps_out"], kernel: int
) -> Float[Tensor, "task out channel {kernel} {kernel}"]:
    """Weights, from the order of drawing and of files into torch's order, with channels innermost in memory."""
    return weight.unflatten(2, (kernel, kernel, -1)).permute(0, 4, 2, 3, 1).contiguous().permute(0, 1, 4, 2, 3)


def _weights_of(
    kernels: Float[Tensor, "task out channel kernel kernel"],
) -> Float[Tensor, "task channel taps_out"]:
    return kernels.permute(0, 2, 3, 4, 1).flatten(2)


def implant_tensors(implants: Implants) -> dict[str, Tensor]:
    """Trained implants as named tensors: `2.gamma` belongs to the third layer."""
    tensors: dict[str, Tensor] = {}
    for number, implant in enumerate(implants.layers):
        variance, mean = implant.statistics or (None, None)
        between = None if implant.implant_weight is None else _weights_of(implant.implant_weight)
        parts = {"base_weight": _weights_of(implant.base_weight), "implant_weight": between}
        parts |= {"gamma": implant.gamma, "beta": implant.beta, "variance": variance, "mean": mean}
        tensors |= {f"{number}.{name}": value for name, value in parts.items() if value is not None}
    return tensors


def implants_from_tensors(
    tail: Tail, sizes: Sizes, tensors: Mapping[str, Tensor], weight: Float[Tensor, " task"] | None = None
) -> Implants:
    """The inverse of `implant_tensors`, which leave out their weight."""

    def implant(number: int, layer: ImplantedLayer) -> Implant:
        between = tensors.get(f"{number}.implant_weight")
        return Implant(
            stride=layer.stride,
            base_weight=_kernels_of(tensors[f"{number}.base_weight"], layer.kernel),
            implant_weight=None if between is None else _kernels_of(between, layer.kernel),
            gamma=tensors[f"{number}.gamma"],
            beta=tensors[f"{number}.beta"],
            statistics=(tensors[f"{number}.variance"], tensors[f"{number}.mean"]),
        )

    return Implants(tail, sizes, [implant(number, layer) for number, layer in enumerate(tail.layers)], weight)


def joined(parts: Sequence[Implants]) -> Implants:
    """The trained implants of several batches of tasks, concatenated."""
    named = [implant_tensors(part) for part in parts]
    tensors = {name: torch.cat([each[name] for each in named]) for name in named[0]}
    weights = [part.weight for part in parts if part.weight is not None]
    return implants_from_tensors(parts[0].tail, parts[0].sizes, tensors, torch.cat(weights) if weights else None)
