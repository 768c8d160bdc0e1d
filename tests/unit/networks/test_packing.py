"""The packed network against its slow twin, the folded one."""

import copy
import pickle

import pytest
import torch
from torch import nn

from implanting.base import BaseNetwork, load_base
from implanting.classifier.estimator import FewShotClassifier
from implanting.config import NetworkConfig
from implanting.images import Normalisation, Preprocessing
from implanting.networks import ImplantedModule, build_network, folded, quickened
from implanting.networks import frozen as module
from implanting.networks.efficientnet import SameConvolution
from implanting.networks.frozen import ACTIVATIONS, packed
from rounding import assert_computes, assert_near, of_layer
from toys import coloured, noise, seeded, toy_base, unsettle

pytestmark = pytest.mark.skipif(not module.available(), reason="this torch has no oneDNN")


def frozen(network: nn.Module) -> nn.Module:
    unsettle(network)
    return network.eval().requires_grad_(False)


@torch.inference_mode()
def assert_same_maps(quick: nn.Module, network: nn.Module, count: int, size: tuple[int, int]) -> None:
    x = torch.randn(count, 3, *size, generator=seeded(1)).to(memory_format=torch.channels_last)
    assert_computes(quick, network, x)
    torch.testing.assert_close(quick(x), quick.activations(x)[1])


@pytest.mark.parametrize(
    "config", [NetworkConfig("resnet12", 4), NetworkConfig("resnet12", 2, True), NetworkConfig("c128f", 5)]
)
@pytest.mark.parametrize("size", [(32, 32), (37, 51), (84, 84)])
def test_our_networks_compute_the_same(config, size):
    network = folded(frozen(build_network(config)), (32, 32))
    quick = packed(network, (32, 32))
    assert quick is not network
    assert not any(isinstance(layer, nn.ReLU) for layer in quick.modules())
    for count in (1, 5):
        assert_same_maps(quick, network, count, size)


@pytest.mark.parametrize(
    ("name", "size"),
    [*(("efficientnet-lite0", size) for size in [(64, 64), (65, 97), (90, 33)]), ("efficientnet-lite2", (33, 65))],
)
def test_efficientnet_lite_computes_the_same(name, size):
    network = folded(load_base(name).network, (64, 64))
    quick = packed(network, (64, 64))
    assert not any(isinstance(layer, nn.ReLU6) for layer in quick.modules())
    for count in (1, 3):
        assert_same_maps(quick, network, count, size)


@pytest.mark.parametrize("kernel", [3, 4, 5])
@pytest.mark.parametrize("stride", [2, 3])
def test_same_padding_by_a_kernel_that_begins_with_zeros(kernel, stride):
    layer = SameConvolution(3, 4, kernel, stride).requires_grad_(False)
    quick = copy.deepcopy(layer)
    module.take_over(quick, ACTIVATIONS[nn.SiLU])
    for size in [(7, 8), (8, 8), (9, 9), (12, 5)]:
        x = torch.randn(2, 3, *size, generator=seeded())
        error = (quick(x) - nn.functional.silu(copy.deepcopy(layer).double()(x.double()))).abs()
        assert (error <= 1.1 * of_layer(layer, x)).all()  # swish is nowhere steeper


class Leaky(nn.ReLU):
    """No longer what oneDNN would compute."""

    def forward(self, x):
        return x.clamp(min=-1)


class Own(nn.Module):
    """A user's network: an activation that can be handed over, one that is called twice, one that only looks known."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.twice = nn.ReLU()
        self.one, self.two = nn.Conv2d(8, 8, 3, 1, 2, dilation=2, groups=2), nn.Conv2d(8, 8, 1)
        self.odd = nn.Sequential(nn.Conv2d(8, 6, 3, padding="same"), nn.Conv2d(6, 6, 1), Leaky())
        self.circular = nn.Sequential(nn.Conv2d(6, 5, 3, padding=1, padding_mode="circular"), nn.SiLU())

    def forward(self, x):
        x = self.stem(x)
        x = x + self.twice(self.one(x))
        return self.circular(self.odd(self.twice(self.two(x))))


def own_base(own: nn.Module, tail=()) -> BaseNetwork:
    preprocessing = Preprocessing((24, 24), Normalisation((0.5,) * 3, (0.25,) * 3))
    return BaseNetwork.from_module(frozen(own), preprocessing, tau=10.0, tail=tail)


@pytest.mark.parametrize("tail", [(), (ImplantedModule("circular.0", "swish"),)])
def test_ones_own_network_computes_the_same_with_its_implanted_convolutions(tail):
    base = own_base(Own(), tail)
    network = folded(base.network, (24, 24))
    assert_same_maps(base.quick, network, 3, (24, 30))
    assert isinstance(base.quick.module.stem[2], nn.Identity)
    assert isinstance(base.quick.module.twice, nn.ReLU)
    assert isinstance(base.quick.module.circular[1], nn.SiLU)
    assert len(base.quick.activations(torch.zeros(1, 3, 24, 24))[0]) == len(tail)


class ReadTwice(nn.Module):
    """A convolution's output is read beside its activation too: handing that over would change it."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.relu = nn.Conv2d(3, 8, 3), nn.ReLU()

    def forward(self, x):
        x = self.convolution(x)
        return x + self.relu(x)


def test_a_network_that_reads_a_convolution_beside_its_activation_is_used_as_it_is():
    network = own_base(ReadTwice()).network
    assert packed(network, (24, 24)) is network


def test_folding_and_packing_together_equals_one_after_the_other():
    network = load_base("efficientnet-lite0").network
    x = torch.randn(1, 3, 64, 64, generator=seeded(1)).to(memory_format=torch.channels_last)
    together, in_turn = quickened(network, (64, 64)), packed(folded(network, (64, 64)), (64, 64))
    assert not any(isinstance(layer, nn.ReLU6 | nn.BatchNorm2d) for layer in together.modules())
    with torch.inference_mode():
        torch.testing.assert_close(together(x), in_turn(x), rtol=0, atol=0)


class FoldedAndReadTwice(ReadTwice):
    """Its batch norm can be folded, but it cannot be packed."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))


def test_a_network_that_cannot_be_packed_is_folded():
    network = own_base(FoldedAndReadTwice()).network
    quick = quickened(network, (24, 24))
    assert_same_maps(quick, network, 2, (24, 30))
    assert isinstance(quick.module.convolution[1], nn.Identity)
    assert isinstance(quick.module.relu, nn.ReLU)


def test_without_onednn_the_network_is_used_as_it_is(monkeypatch):
    images = noise(2, 32, 32, 3)
    expected = toy_base().embed(images)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    network = folded(frozen(build_network(NetworkConfig("resnet12", 4))), (32, 32))
    assert packed(network, (32, 32)) is network
    assert_near(toy_base().embed(images), expected)


def raising(error: type[Exception]):
    def changed(*_arguments):
        raise error("this torch is another one")

    return changed


PRIVATE = ["_convolution_pointwise", "_reorder_convolution_weight"]


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize(
    "changed",
    [
        *(raising(error) for error in (AttributeError, TypeError, RuntimeError, NotImplementedError)),
        lambda x, weight: x,
        lambda x, *_others: torch.zeros_like(x),
    ],
    ids=["gone", "refuses", "fails", "not for this processor", "takes other arguments", "computes otherwise"],
)
def test_where_a_private_call_of_torch_has_changed_the_network_is_used_as_it_is(monkeypatch, name, changed):
    images = noise(2, 32, 32, 3)
    base, network = toy_base(), folded(frozen(build_network(NetworkConfig("resnet12", 4))), (32, 32))
    expected = base.network(base.preprocessing.normalisation(images)).flatten(2).mT
    monkeypatch.setattr(torch.ops.mkldnn, name, changed)
    assert packed(network, (32, 32)) is network
    torch.testing.assert_close(base.embed(images), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", PRIVATE)
def test_other_errors_are_not_caught(monkeypatch, name):
    network = folded(frozen(build_network(NetworkConfig("resnet12", 4))), (32, 32))
    monkeypatch.setattr(torch.ops.mkldnn, name, raising(KeyError))
    with pytest.raises(KeyError, match="another one"):
        packed(network, (32, 32))


def test_elsewhere_than_on_the_processor_and_in_other_precision_the_network_is_used_as_it_is():
    network = folded(frozen(build_network(NetworkConfig("c128f", 4))), (32, 32))
    assert packed(network.double(), (32, 32)) is network
    with torch.device("meta"):
        elsewhere = build_network(NetworkConfig("c128f", 4))
    assert packed(elsewhere, (32, 32)) is elsewhere


def test_a_classifier_that_has_computed_is_pickled_copied_and_computes_the_same():
    toys = coloured(classes=2, per_class=3, size=32)
    classifier = FewShotClassifier(toy_base(), implants=False).fit(toys.images.numpy(), toys.labels.numpy())
    images = noise(4, 32, 32, 3).numpy()
    expected = classifier.predict_proba(images)
    assert classifier.base_.quick is not classifier.base_.network
    for other in (pickle.loads(pickle.dumps(classifier)), copy.deepcopy(classifier)):
        assert (other.predict_proba(images) == expected).all()


def test_weights_are_put_in_order_once():
    quick = packed(folded(frozen(build_network(NetworkConfig("c128f", 4))), (32, 32)), (32, 32))
    ways = [layer.forward for layer in quick.modules() if isinstance(layer, nn.Conv2d)]
    weights = [way.weight for way in ways]
    assert all(weight.is_mkldnn for weight in weights)
    quick(torch.zeros(2, 3, 32, 32))
    assert all(way.weight is weight for way, weight in zip(ways, weights, strict=True))
