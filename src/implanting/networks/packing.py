"""The convolutions of a frozen network computed faster, on processors.

oneDNN, which torch uses, can compute a convolution and its activation in one pass over the map, and wants weights in an
order of its own. Called as usual it gets neither: torch puts weights in order at every call, passes over the map again
for the activation, and with one thread leaves 1x1 convolutions of few images to slower code. Here weights are put in
order once, and the activation is handed over.

Which activation follows which convolution is seen by running the network once, and the copy must give what the network
gave, all as with batch norm (`folding.py`). Without oneDNN, on other devices, and where torch's private calls, tried on
that image, are not what they were, the network is used as it is.
"""

import copy
from collections.abc import Callable
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from implanting.networks.efficientnet import SameConvolution
from implanting.networks.folding import Frozen, observed, replace, same_maps, trial_image

Maps = Float[Tensor, "image channel height width"]


class Activation(NamedTuple):
    """An activation as oneDNN knows it."""

    name: str = "none"
    numbers: tuple[float, ...] = ()


ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.ReLU: Activation("relu"),
    nn.ReLU6: Activation("hardtanh", (0.0, 6.0)),
    nn.SiLU: Activation("swish"),
}

CHANGED = AttributeError, TypeError, RuntimeError
"""What a private call of torch raises where it is gone, takes other arguments than it did, or is not there for this
processor (NotImplementedError is a RuntimeError)."""


def available() -> bool:
    """Whether this torch has oneDNN, and it is not switched off."""
    return torch.backends.mkldnn.is_available() and bool(torch.backends.mkldnn.enabled)


@torch.no_grad()
def packed(network: Frozen, image_size: tuple[int, int]) -> Frozen:
    """A copy that computes the same, faster; the network itself where that cannot be had."""
    names = [name for name, module in network.named_modules() if _packable(module)]
    if not names or not available():
        return network
    quick = copy.deepcopy(network)
    image = trial_image(network, image_size)
    expected, pairs = observed(quick, image, tuple(ACTIVATIONS))
    activations = {name: Activation() for name in names}
    for name, after in pairs:
        kind = type(quick.get_submodule(after))
        if name in activations and kind in ACTIVATIONS:  # and not one that the user derived from it
            activations[name] = ACTIVATIONS[kind]
            replace(quick, after, nn.Identity())
    for name, activation in activations.items():
        take_over(cast(nn.Conv2d, quick.get_submodule(name)), activation)
    try:
        return quick if same_maps(quick, image, expected) else network
    except CHANGED:  # the network itself has just taken this image: it is packing that fails
        return network


def _packable(module: nn.Module) -> bool:
    """Whether it is a convolution whose ways are known here."""
    return (
        isinstance(module, nn.Conv2d)
        and type(module) in (nn.Conv2d, SameConvolution)
        and module.padding_mode == "zeros"
        and not isinstance(module.padding, str)
        and module.weight.device.type == "cpu"
        and module.weight.dtype == torch.float32
    )


def take_over(convolution: nn.Conv2d, activation: Activation) -> None:
    """Have the module compute another way, in place: what refers to it, and its hooks, stay as they are."""
    way: Callable[[Tensor], Tensor]
    if isinstance(convolution, SameConvolution):
        way = SamePacked(convolution, activation)
    else:
        way = _packed_convolution(convolution, activation)
    convolution.forward = way  # type: ignore[method-assign, assignment] # that is what is meant
    convolution.weight = convolution.bias = None  # type: ignore[assignment] # held by `way`


class Geometry(NamedTuple):
    """Where a convolution looks; in the order of oneDNN's arguments."""

    padding: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


class Packed:
    """A convolution and its activation in one call, its weights in oneDNN's order for the first maps that it gets."""

    def __init__(self, weight: Tensor, bias: Tensor | None, geometry: Geometry, activation: Activation) -> None:
        self.weight, self.bias, self.geometry = weight.detach(), bias, geometry
        self.activation = activation.name, activation.numbers, ""

    def __call__(self, x: Maps) -> Tensor:
        weight = self.weight  # read once: another thread may be packing it too
        if not weight.is_mkldnn:
            weight = self.weight = torch.ops.mkldnn._reorder_convolution_weight(weight, *self.geometry, x.shape)
        result: Tensor = torch.ops.mkldnn._convolution_pointwise(x, weight, self.bias, *self.geometry, *self.activation)
        return result


def _packed_convolution(convolution: nn.Conv2d, activation: Activation) -> Packed:
    padding = cast(tuple[int, int], convolution.padding)  # not by name: see `_packable`
    geometry = Geometry(padding, convolution.stride, convolution.dilation, convolution.groups)
    return Packed(convolution.weight, convolution.bias, geometry, activation)


class SamePacked:
    """The same for TensorFlow's "SAME" padding.

    oneDNN gets equal padding before and after. Where there must be one less before, the kernel begins with a row or a
    column of zeros instead, which is quicker than a padded copy of the map.
    """

    def __init__(self, convolution: SameConvolution, activation: Activation) -> None:
        self.convolution, self.activation = convolution, activation
        self.weight, self.bias = convolution.weight.detach(), convolution.bias
        self.ways: dict[tuple[int, ...], Packed] = {}

    def __call__(self, x: Maps) -> Tensor:
        left, right, top, bottom = padding = self.convolution.same_padding(x.shape)
        if padding not in self.ways:
            one = self.convolution
            weight = F.pad(self.weight, (right - left, 0, bottom - top, 0))
            geometry = Geometry((bottom, right), one.stride, one.dilation, one.groups)
            self.ways[padding] = Packed(weight, self.bias, geometry, self.activation)
        return self.ways[padding](x)
