import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from implanting.base import load_base
from implanting.config import NetworkConfig
from implanting.networks import build_network, folded
from rounding import assert_computes, exactly
from toys import noise, same, seeded, toy_base, unsettle


class Toy(nn.Module):
    """A depthwise convolution with a bias, a strided one, and a batch norm that follows no convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.BatchNorm2d(3)
        self.depthwise = nn.Conv2d(3, 6, 3, padding=1, groups=3)
        self.norm = nn.BatchNorm2d(6, eps=1e-3)
        self.strided = nn.Sequential(nn.Conv2d(6, 5, 1, stride=2, bias=False), nn.BatchNorm2d(5, affine=False))

    def activations(self, x):
        a1 = F.relu6(self.norm(self.depthwise(self.first(x))))
        return [a1], self.strided(a1)


class ReadTwice(Toy):
    """The output of a convolution goes round its batch norm too: folding would change it."""

    def activations(self, x):
        a1 = self.depthwise(self.first(x))
        return [a1 + self.norm(a1)], self.strided(a1)


def frozen(network: nn.Module) -> nn.Module:
    unsettle_all(network)
    return network.eval().requires_grad_(False)


def unsettle_all(network: nn.Module) -> None:
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d) and not layer.affine:
            layer.running_mean += 0.3
            layer.running_var *= 1.7
            layer.weight, layer.bias = nn.Parameter(torch.ones(5)), nn.Parameter(torch.zeros(5))
    unsettle(network)


def drawn(*size: int) -> torch.Tensor:
    return torch.randn(3, 3, *size, generator=seeded(1)).contiguous(memory_format=torch.channels_last)


def norms(network: nn.Module) -> int:
    return sum(isinstance(layer, nn.BatchNorm2d) for layer in network.modules())


@pytest.mark.parametrize(
    "config", [NetworkConfig("resnet12", 4), NetworkConfig("c128f", 4), NetworkConfig("resnet12", 2, True)]
)
def test_a_folded_network_computes_the_same_without_batch_norm(config):
    network = frozen(build_network(config))
    before = copy.deepcopy(network.state_dict())
    quick = folded(network, (32, 32))
    assert norms(network) > 0
    assert norms(quick) == 0
    assert_computes(quick, network, drawn(48, 32))
    assert same(network.state_dict(), before)
    assert not any(weight.requires_grad for weight in quick.parameters())


@pytest.mark.parametrize("name", ["efficientnet-lite0", "efficientnet-lite2"])
def test_efficientnet_lite_is_folded(name):
    network = load_base(name).network
    quick = folded(network, (64, 64))
    assert norms(quick) == 0
    assert_computes(quick, network, drawn(64, 96))


def test_depthwise_strided_and_biased_convolutions_are_folded_and_a_lone_batch_norm_is_left():
    network = frozen(Toy())
    quick = folded(network, (8, 8))
    assert norms(quick) == 1
    assert_computes(quick, network, drawn(8, 8))


def test_a_network_that_reads_a_convolution_twice_is_used_as_it_is():
    network = frozen(ReadTwice())
    assert folded(network, (8, 8)) is network
    assert norms(network) == 3


def test_a_network_without_batch_norm_is_used_as_it_is():
    network = frozen(Toy())
    network.norm = network.first = network.strided[1] = nn.Identity()
    assert folded(network, (8, 8)) is network


def test_a_base_network_computes_folded_and_is_saved_as_trained():
    base, images = toy_base(), noise(3, 32, 32, 3)
    fingerprint, tensors = base.fingerprint, {name: value.clone() for name, value in base.tensors.items()}
    expected, tolerances = exactly(base.network, base.preprocessing.normalisation(images))
    assert (base.embed(images) - expected[-1].flatten(2).mT).abs().max() <= tolerances[-1]
    assert norms(base.quick) == 0
    assert base.quick is base.quick
    assert same(base.tensors, tensors)
    del base.fingerprint
    assert base.fingerprint == fingerprint


def test_another_network_in_the_same_base_is_folded_anew():
    base, other, images = toy_base(), toy_base(seed=1), noise(2, 32, 32, 3)
    base.embed(images)
    base.network = other.network
    assert torch.equal(base.embed(images), other.embed(images))
