"""How far a correct way of computing may err in float32, on any machine.

Which instructions a library takes, in which order it adds and whether it fuses differ from one processor to the next,
so what a sum errs by on one machine says nothing of another. What holds everywhere, whatever the order (Higham & Mary,
"A new approach to probabilistic rounding error analysis", 2019), is that a sum of n products errs by at most

    lambda * sqrt(n) * 2**-24 * sum |x_i w_i|

with a probability that nears one quickly as lambda grows; 2**-24 is what rounding changes a number by at most, relative
to it. Most sums stay far below: processors add in 4 to 16 strands, and terms of both signs keep partial sums small. Yet
the tolerance tells right from wrong: a term that is missing is of the size of |x_i w_i| itself.

In a network, what one layer errs by goes on through those after it like any other signal, and a function that is steep
somewhere (a root near zero) enlarges it. By how much is a property of the network, and is found by shaking it: in the
float64 twin each convolution and each batch norm is moved, up or down at random, by as much as it may err in float32.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from toys import seeded

ROUNDING = 2.0**-24
LAMBDA = 2.0
"""Terms of one sign added one after the other, the worst order, err by 1/3 in the mean square: six times that."""

BESIDES = 16
"""Roundings of an output beside those of its sum: weights made ready beforehand, batch norm, bias, activation."""

SHAKES = 3
"""The largest of so many movements: a small map, most of it cut off by ReLU, may by chance hardly move at once."""


def of_sums(terms: int, magnitude: Tensor) -> Tensor:
    """What sums of so many products may err by; `magnitude` is sum |x_i w_i|."""
    return LAMBDA * (terms + BESIDES) ** 0.5 * ROUNDING * magnitude


def of_layer(layer: nn.Conv2d | nn.BatchNorm2d, x: Tensor) -> Tensor:
    """What the outputs of a convolution or a batch norm may err by: the same layer adds up the sizes of all terms."""
    absolute = copy.deepcopy(layer).double().requires_grad_(False)
    for parameter in absolute.parameters():
        parameter.abs_()
    if isinstance(absolute, nn.BatchNorm2d):
        absolute.running_mean = -absolute.running_mean.abs()
    terms = layer.weight[0].numel() if isinstance(layer, nn.Conv2d) else 1
    return of_sums(terms, absolute.forward(x.double().abs()))


@torch.no_grad()
def exactly(network: nn.Module, images: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """The maps and phi that a network gives in float64, and what each may err by in float32."""
    twin, generator = copy.deepcopy(network).double(), seeded()

    def activations() -> list[Tensor]:
        maps, phi = twin.activations(images.double())
        return [*maps, phi]

    def shake(layer: nn.Conv2d | nn.BatchNorm2d, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        signs = 2 * torch.randint(0, 2, output.shape, generator=generator) - 1
        return output + signs * of_layer(layer, inputs[0])

    still = activations()
    for layer in twin.modules():
        if isinstance(layer, nn.Conv2d | nn.BatchNorm2d):
            layer.register_forward_hook(shake)
    shaken = [activations() for _ in range(SHAKES)]
    return still, [torch.stack(moved).sub(one).abs().max() for one, *moved in zip(still, *shaken, strict=True)]


@torch.no_grad()
def assert_computes(quick: nn.Module, network: nn.Module, images: Tensor) -> None:
    """Another way of computing a network gives its maps and phi as exactly as float32 can."""
    maps, phi = quick.activations(images)
    for found, expected, tolerance in zip([*maps, phi], *exactly(network, images), strict=True):
        assert found.shape == expected.shape
        assert (found - expected).abs().max() <= tolerance


NEAR = 1e-4
"""The share by which what two float32 ways make of one image may differ.

Shaken, the toy networks of these tests move by 2e-6 to 2e-5 of their largest feature, and two ways by twice that.
Cosines average over features and err less; a probability moves by at most a quarter of tau (10 to 63) times as far.
The loss of one convolution's bias moves features by a hundredth or more.
"""


def assert_near(found: Any, expected: Any, scale: float | None = None) -> None:
    """Two tensors or arrays are equal but for rounding, against `scale`, or else against the largest number."""
    found, expected = (torch.as_tensor(part).detach().double() for part in (found, expected))
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= NEAR * (scale or expected.abs().max())
