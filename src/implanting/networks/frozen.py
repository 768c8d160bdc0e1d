"""A frozen network made faster: batch norm folded into convolutions, and convolutions packed for the processor.

A trial run on one image shows which batch norm or activation follows which convolution, so this works for any network,
ours or a user's own. The faster copy must compute the same; if it does not (say, because a convolution's output is also
read elsewhere), the network is used unchanged. Weights and fingerprints remain those of the original network.

Packing: oneDNN, which torch uses, can compute a convolution and its activation in one pass over the map, and wants
weights in an order of its own. The usual calls use neither: torch reorders the weights at every call, passes over the
map again for the activation, and with one thread leaves 1x1 convolutions of few images to slower code. Here weights
are reordered once, and the activation is a part of the call. Without oneDNN, on other devices, and if torch's private
calls fail on the trial image because they have changed, the network is used unchanged.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from implanting.networks.efficientnet import SameConvolution
from implanting.networks.phi import Embedding

TOLERANCE = 1e-3
"""Largest allowed difference on the trial image, relative to the largest number of the map.

Rounding causes at most 2e-5 in the networks tried, whatever instructions the processor has, and could cause more in a
deeper one. A copy that lacks the bias of a single convolution is off by 2e-2 or more.
"""

Frozen = TypeVar("Frozen", bound=nn.Module)

Maps = Float[Tensor, "image channel height width"]

CHANGED = AttributeError, TypeError, RuntimeError
"""The exceptions of a private torch call that was removed, has other arguments now, or does not exist for this
processor (NotImplementedError is a RuntimeError)."""

Pairs = list[tuple[str, str]]
"""The names of a convolution or batch norm, and of the batch norm or activation that directly follows it."""


class Activation(NamedTuple):
    """An activation under the name that oneDNN gives it."""

    name: str = "none"
    numbers: tuple[float, ...] = ()


ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.ReLU: Activation("relu"),
    nn.ReLU6: Activation("hardtanh", (0.0, 6.0)),
    nn.SiLU: Activation("swish"),
}


@torch.no_grad()
def quickened(network: Frozen, image_size: tuple[int, int]) -> Frozen:
    """A faster copy that computes the same, with batch norm folded and convolutions packed.

    Both are tried together, with one copy and one trial, because a command that classifies one photo waits for them. If
    that fails, they are tried one after the other.
    """
    if _packable_names(network):
        quick = copy.deepcopy(network)
        image = _trial_image(network, image_size)
        expected, pairs = _observed(quick, image)
        _pack(quick, pairs, _fold_norms(quick, pairs))
        with suppress(*CHANGED):  # the network itself has just run on this image, so packing is what failed
            if _same_maps(quick, image, expected):
                return quick
    return packed(folded(network, image_size), image_size)


@torch.no_grad()
def folded(network: Frozen, image_size: tuple[int, int]) -> Frozen:
    """A faster copy that computes the same, with batch norm folded; the network itself if nothing can be folded."""
    quick = copy.deepcopy(network)
    image = _trial_image(network, image_size)
    expected, pairs = _observed(quick, image)
    if not _fold_norms(quick, pairs):
        return network
    return quick if _same_maps(quick, image, expected) else network


def _fold_norms(network: nn.Module, pairs: Pairs) -> dict[str, str]:
    """Fold each batch norm into the convolution before it, in place; return this convolution for each batch norm."""
    convolutions = {}
    for before, after in pairs:
        convolution, norm = network.get_submodule(before), network.get_submodule(after)
        foldable = isinstance(norm, nn.BatchNorm2d) and norm.running_mean is not None
        if foldable and isinstance(convolution, nn.Conv2d):
            _fold(convolution, norm)
            replace(network, after, nn.Identity())
            convolutions[after] = before
    return convolutions


def _trial_image(network: nn.Module, image_size: tuple[int, int]) -> Tensor:
    return torch.randn(1, 3, *image_size, generator=torch.Generator().manual_seed(0)).to(device_of(network))


def device_of(network: nn.Module | Embedding) -> torch.device:
    """The device of the network's parameters; the CPU if it has none, as when its convolutions are packed."""
    return next((parameter.device for parameter in network.parameters()), torch.device("cpu"))


def _observed(network: nn.Module, image: Tensor) -> tuple[list[Tensor], Pairs]:
    """The network's maps for an image, and the pairs of modules that `Pairs` describes."""
    names = {module: name for name, module in network.named_modules()}
    makers = [module for module in names if isinstance(module, nn.Conv2d | nn.BatchNorm2d)]
    followers: tuple[type[nn.Module], ...] = (nn.BatchNorm2d, *ACTIVATIONS)
    readers = [module for module in names if isinstance(module, followers)]
    outputs: dict[nn.Module, list[Tensor]] = {module: [] for module in makers}
    inputs: dict[nn.Module, list[Tensor]] = {module: [] for module in readers}
    with (
        watched(makers, lambda module, _inputs, output: outputs[module].append(output)),
        watched(readers, lambda module, read, _output: inputs[module].append(read[0])),
    ):
        maps, phi = cast(Embedding, network).activations(image)
    made_by = {id(made[0]): names[module] for module, made in outputs.items() if len(made) == 1}
    read_by = {names[module]: id(read[0]) for module, read in inputs.items() if len(read) == 1}
    return [*maps, phi], [(made_by[read], name) for name, read in read_by.items() if read in made_by]


@contextmanager
def watched(modules: Iterable[nn.Module], hook: Callable[[nn.Module, Any, Any], None]) -> Iterator[None]:
    """Call the hook with a module, its inputs and its output whenever one of these modules runs inside the block."""
    handles = [module.register_forward_hook(hook) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def replace(network: nn.Module, name: str, module: nn.Module) -> None:
    """Replace the submodule of this name."""
    parent, _, leaf = name.rpartition(".")
    setattr(network.get_submodule(parent), leaf, module)


def _fold(convolution: nn.Module, norm: nn.Module) -> None:
    """Give the convolution weights that include the batch norm, in place."""
    before, after = cast(nn.Conv2d, convolution), cast(nn.BatchNorm2d, norm)
    statistics = cast(Tensor, after.running_mean), cast(Tensor, after.running_var)
    before.weight, before.bias = fuse_conv_bn_weights(
        before.weight, before.bias, *statistics, after.eps, after.weight, after.bias
    )


def _same_maps(network: nn.Module, image: Tensor, expected: list[Tensor]) -> bool:
    maps, phi = cast(Embedding, network).activations(image)
    return all(close(one, other) for one, other in zip([*maps, phi], expected, strict=True))


def close(one: Tensor, other: Tensor) -> bool:
    """Whether two maps differ by rounding only."""
    return bool((one - other).abs().max() <= TOLERANCE * other.abs().max())


def available() -> bool:
    """Whether this torch has oneDNN, and it is not switched off."""
    return torch.backends.mkldnn.is_available() and bool(torch.backends.mkldnn.enabled)


@torch.no_grad()
def packed(network: Frozen, image_size: tuple[int, int]) -> Frozen:
    """A faster copy that computes the same, with packed convolutions; the network itself if that is not possible."""
    if not _packable_names(network):
        return network
    quick = copy.deepcopy(network)
    image = _trial_image(network, image_size)
    expected, pairs = _observed(quick, image)
    _pack(quick, pairs, {})
    with suppress(*CHANGED):  # as above
        if _same_maps(quick, image, expected):
            return quick
    return network


def _pack(network: nn.Module, pairs: Pairs, folded_into: dict[str, str]) -> None:
    """Pack convolutions with the activations that follow them, in place, some after a norm that was folded."""
    activations = {name: Activation() for name in _packable_names(network)}
    for before, after in pairs:
        name, kind = folded_into.get(before, before), type(network.get_submodule(after))
        if name in activations and kind in ACTIVATIONS:  # exactly this class, not one derived from it
            activations[name] = ACTIVATIONS[kind]
            replace(network, after, nn.Identity())
    for name, activation in activations.items():
        take_over(cast(nn.Conv2d, network.get_submodule(name)), activation)


def _packable_names(network: nn.Module) -> list[str]:
    """The names of the convolutions that can be packed; none without oneDNN."""
    return [name for name, module in network.named_modules() if _packable(module)] if available() else []


def _packable(module: nn.Module) -> bool:
    """Whether this is a convolution of a kind that we can pack."""
    return (
        isinstance(module, nn.Conv2d)
        and type(module) in (nn.Conv2d, SameConvolution)
        and module.padding_mode == "zeros"
        and not isinstance(module.padding, str)
        and module.weight.device.type == "cpu"
        and module.weight.dtype == torch.float32
    )


def take_over(convolution: nn.Conv2d, activation: Activation) -> None:
    """Replace how the module computes, in place: references to it and its hooks stay valid."""
    way: Callable[[Tensor], Tensor]
    if isinstance(convolution, SameConvolution):
        way = SamePacked(convolution, activation)
    else:
        way = _packed_convolution(convolution, activation)
    convolution.forward = way  # type: ignore[method-assign, assignment] # intended
    convolution.weight = convolution.bias = None  # type: ignore[assignment] # held by `way`


class Geometry(NamedTuple):
    """Which pixels a convolution reads, in the order of oneDNN's arguments."""

    padding: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


class Packed:
    """A convolution and its activation in one call; the first call puts the weights into oneDNN's order."""

    def __init__(self, weight: Tensor, bias: Tensor | None, geometry: Geometry, activation: Activation) -> None:
        self.weight, self.bias, self.geometry = weight.detach(), bias, geometry
        self.activation = activation.name, activation.numbers, ""

    def __call__(self, x: Maps) -> Tensor:
        weight = self.weight  # read once: another thread may be reordering it too
        if not weight.is_mkldnn:
            weight = self.weight = torch.ops.mkldnn._reorder_convolution_weight(weight, *self.geometry, x.shape)
        result: Tensor = torch.ops.mkldnn._convolution_pointwise(x, weight, self.bias, *self.geometry, *self.activation)
        return result


def _packed_convolution(convolution: nn.Conv2d, activation: Activation) -> Packed:
    padding = cast(tuple[int, int], convolution.padding)  # not a name such as "same": see `_packable`
    geometry = Geometry(padding, convolution.stride, convolution.dilation, convolution.groups)
    return Packed(convolution.weight, convolution.bias, geometry, activation)


class SamePacked:
    """A packed convolution with TensorFlow's "SAME" padding.

    oneDNN pads equally on both sides. Where one pixel less is needed at the top or left, the kernel gets a leading row
    or column of zeros instead, which is faster than a padded copy of the map.
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
