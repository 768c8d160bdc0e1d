"""A frozen network computed faster: batch norm folded into convolutions, and convolutions packed for the processor.

Which batch norm or activation follows which convolution is seen by running the network once, so that any network is
taken: ours, and a user's own. The copy must give what the network gave; where it does not (say, because a convolution's
output is read elsewhere too), the network is used as it is. Weights and fingerprints stay those of the network itself.

Packing: oneDNN, which torch uses, can compute a convolution and its activation in one pass over the map, and wants
weights in an order of its own. Called as usual it gets neither: torch puts weights in order at every call, passes over
the map again for the activation, and with one thread leaves 1x1 convolutions of few images to slower code. Here weights
are put in order once, and the activation is handed over. Without oneDNN, on other devices, and where torch's private
calls, tried on the trial image, are not what they were, the network is used as it is.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from implanting.networks.efficientnet import SameConvolution
from implanting.networks.phi import Embedding

TOLERANCE = 1e-3
"""Largest difference on the trial image, against the largest number of the map.

Rounding makes 2e-5 at most in the networks at hand, whatever instructions the processor has, and could make more in a
deeper one. A copy that lacks the bias of a single convolution is off by 2e-2 or more.
"""

Frozen = TypeVar("Frozen", bound=nn.Module)

Maps = Float[Tensor, "image channel height width"]

CHANGED = AttributeError, TypeError, RuntimeError
"""What a private call of torch raises where it is gone, takes other arguments than it did, or is not there for this
processor (NotImplementedError is a RuntimeError)."""


@torch.no_grad()
def folded(network: Frozen, image_size: tuple[int, int]) -> Frozen:
    """A copy that computes the same, faster; the network itself where nothing can be folded."""
    quick = copy.deepcopy(network)
    image = _trial_image(network, image_size)
    expected, pairs = _observed(quick, image, (nn.BatchNorm2d,))
    pairs = [(name, norm) for name, norm in pairs if quick.get_submodule(norm).running_mean is not None]
    if not pairs:
        return network
    for convolution, norm in pairs:
        _fold(quick.get_submodule(convolution), quick.get_submodule(norm))
        replace(quick, norm, nn.Identity())
    return quick if _same_maps(quick, image, expected) else network


def _trial_image(network: nn.Module, image_size: tuple[int, int]) -> Tensor:
    return torch.randn(1, 3, *image_size, generator=torch.Generator().manual_seed(0)).to(device_of(network))


def device_of(network: nn.Module | Embedding) -> torch.device:
    """Where the network computes; one without parameters, such as one whose convolutions are packed, on the CPU."""
    return next((parameter.device for parameter in network.parameters()), torch.device("cpu"))


def _observed(
    network: nn.Module, image: Tensor, kinds: tuple[type[nn.Module], ...]
) -> tuple[list[Tensor], list[tuple[str, str]]]:
    """What the network gives for an image, and the names of each convolution and the module of these kinds after it."""
    names = {module: name for name, module in network.named_modules()}
    convolutions = [module for module in names if isinstance(module, nn.Conv2d)]
    followers = [module for module in names if isinstance(module, kinds)]
    outputs: dict[nn.Module, list[Tensor]] = {module: [] for module in convolutions}
    inputs: dict[nn.Module, list[Tensor]] = {module: [] for module in followers}
    with (
        watched(convolutions, lambda module, _inputs, output: outputs[module].append(output)),
        watched(followers, lambda module, read, _output: inputs[module].append(read[0])),
    ):
        maps, phi = cast(Embedding, network).activations(image)
    made_by = {id(made[0]): names[module] for module, made in outputs.items() if len(made) == 1}
    read_by = {names[module]: id(read[0]) for module, read in inputs.items() if len(read) == 1}
    return [*maps, phi], [(made_by[read], name) for name, read in read_by.items() if read in made_by]


@contextmanager
def watched(modules: Iterable[nn.Module], hook: Callable[[nn.Module, Any, Any], None]) -> Iterator[None]:
    """Have the hook called with each of these modules, its inputs and its output, whenever it runs inside the block."""
    handles = [module.register_forward_hook(hook) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def replace(network: nn.Module, name: str, module: nn.Module) -> None:
    """Put another module in the place of this name."""
    parent, _, leaf = name.rpartition(".")
    setattr(network.get_submodule(parent), leaf, module)


def _fold(convolution: nn.Module, norm: nn.Module) -> None:
    """Give the convolution the weights by which it does the work of both, in place."""
    before, after = cast(nn.Conv2d, convolution), cast(nn.BatchNorm2d, norm)
    statistics = cast(Tensor, after.running_mean), cast(Tensor, after.running_var)
    before.weight, before.bias = fuse_conv_bn_weights(
        before.weight, before.bias, *statistics, after.eps, after.weight, after.bias
    )


def _same_maps(network: nn.Module, image: Tensor, expected: list[Tensor]) -> bool:
    """Whether the network gives for the image what is expected."""
    maps, phi = cast(Embedding, network).activations(image)
    return all(close(one, other) for one, other in zip([*maps, phi], expected, strict=True))


def close(one: Tensor, other: Tensor) -> bool:
    """Whether two maps differ by rounding only."""
    return bool((one - other).abs().max() <= TOLERANCE * other.abs().max())


class Activation(NamedTuple):
    """An activation as oneDNN knows it."""

    name: str = "none"
    numbers: tuple[float, ...] = ()


ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.ReLU: Activation("relu"),
    nn.ReLU6: Activation("hardtanh", (0.0, 6.0)),
    nn.SiLU: Activation("swish"),
}


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
    image = _trial_image(network, image_size)
    expected, pairs = _observed(quick, image, tuple(ACTIVATIONS))
    activations = {name: Activation() for name in names}
    for name, after in pairs:
        kind = type(quick.get_submodule(after))
        if name in activations and kind in ACTIVATIONS:  # and not one that the user derived from it
            activations[name] = ACTIVATIONS[kind]
            replace(quick, after, nn.Identity())
    for name, activation in activations.items():
        take_over(cast(nn.Conv2d, quick.get_submodule(name)), activation)
    try:
        return quick if _same_maps(quick, image, expected) else network
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
