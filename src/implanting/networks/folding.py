"""Batch norm folded into the convolutions: a frozen network computes the same with fewer passes over its maps.

Which batch norm follows which convolution is seen by running the network once, so that any network is folded: ours, and
a user's own. The folded copy must give what the network gave; where it does not (say, because a convolution's output is
read elsewhere too), the network is used as it is. Weights and fingerprints stay those of the network itself.
"""

import copy
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from implanting.networks.phi import Embedding

TOLERANCE = 1e-4
"""Largest difference on the trial image, against the largest number of the map; rounding makes about 1e-6."""


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
        fold(quick.get_submodule(convolution), quick.get_submodule(norm))
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
    calls: dict[str, list[Tensor]] = {}
    names = {module: name for name, module in network.named_modules()}

    def keep_output(module: nn.Module, _inputs: Any, output: Tensor) -> None:
        calls.setdefault(names[module], []).append(output)

    def keep_input(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        calls.setdefault(names[module], []).append(inputs[0])

    convolutions = [module for module in names if isinstance(module, nn.Conv2d)]
    followers = [module for module in names if isinstance(module, kinds)]
    handles = [module.register_forward_hook(keep_output) for module in convolutions]
    handles += [module.register_forward_pre_hook(keep_input) for module in followers]
    maps, phi = cast(Embedding, network).activations(image)
    for handle in handles:
        handle.remove()
    outputs = {id(calls[names[one]][0]): names[one] for one in convolutions if len(calls.get(names[one], ())) == 1}
    inputs = {names[one]: id(calls[names[one]][0]) for one in followers if len(calls.get(names[one], ())) == 1}
    return [*maps, phi], [(outputs[read], name) for name, read in inputs.items() if read in outputs]


def replace(network: nn.Module, name: str, module: nn.Module) -> None:
    """Put another module in the place of this name."""
    parent, _, leaf = name.rpartition(".")
    setattr(network.get_submodule(parent), leaf, module)


def fold(convolution: nn.Module, norm: nn.Module) -> None:
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
