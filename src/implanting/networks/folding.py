"""Batch norm folded into the convolutions: a frozen network computes the same with fewer passes over its maps.

Which batch norm follows which convolution is seen by running the network once, so that any network is folded: ours, and
a user's own. The folded copy must give what the network gave; where it does not (say, because a convolution's output is
read elsewhere too), the network is used as it is. Weights and fingerprints stay those of the network itself.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from implanting.networks.phi import Embedding

TOLERANCE = 1e-3
"""Largest difference on the trial image, against the largest number of the map.

Rounding makes 2e-5 at most in the networks at hand, whatever instructions the processor has, and could make more in a
deeper one. A copy that lacks the bias of a single convolution is off by 2e-2 or more.
"""


Frozen = TypeVar("Frozen", bound=nn.Module)


@torch.no_grad()
def folded(network: Frozen, image_size: tuple[int, int]) -> Frozen:
    """A copy that computes the same, faster; the network itself where nothing can be folded."""
    quick = copy.deepcopy(network)
    image = trial_image(network, image_size)
    expected, pairs = observed(quick, image, (nn.BatchNorm2d,))
    pairs = [(name, norm) for name, norm in pairs if quick.get_submodule(norm).running_mean is not None]
    if not pairs:
        return network
    for convolution, norm in pairs:
        _fold(quick.get_submodule(convolution), quick.get_submodule(norm))
        replace(quick, norm, nn.Identity())
    return quick if same_maps(quick, image, expected) else network


def trial_image(network: nn.Module, image_size: tuple[int, int]) -> Tensor:
    """Noise, where the network computes."""
    return torch.randn(1, 3, *image_size, generator=torch.Generator().manual_seed(0)).to(device_of(network))


def device_of(network: nn.Module | Embedding) -> torch.device:
    """Where the network computes; one without parameters, such as one whose convolutions are packed, on the CPU."""
    return next((parameter.device for parameter in network.parameters()), torch.device("cpu"))


def observed(
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


def same_maps(network: nn.Module, image: Tensor, expected: list[Tensor]) -> bool:
    """Whether the network gives for the image what is expected."""
    maps, phi = cast(Embedding, network).activations(image)
    return all(close(one, other) for one, other in zip([*maps, phi], expected, strict=True))


def close(one: Tensor, other: Tensor) -> bool:
    """Whether two maps differ by rounding only."""
    return bool((one - other).abs().max() <= TOLERANCE * other.abs().max())
