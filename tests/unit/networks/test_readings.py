"""Readings of one pass: what they are by hand, and the maps of which they are means."""

import pytest
import torch
from torch import Tensor

from implanting.base import load_base
from implanting.networks import reading_maps, readings
from implanting.networks.efficientnet import EfficientNetLite, at_its_place
from toys import noise, toy_base


@pytest.fixture(scope="module")
def network() -> EfficientNetLite:
    found = load_base("efficientnet-lite0").network
    assert isinstance(found, EfficientNetLite)
    return found


@pytest.fixture(scope="module")
def images() -> Tensor:
    return noise(2, 3, 64, 96).float() / 128 - 1


@torch.no_grad()
def test_the_four_readings_by_hand(network: EfficientNetLite, images: Tensor) -> None:
    rooted_mean, maximum, classes, middle = readings(network, images)
    published = network.published(images)
    mean = published.mean((2, 3))
    assert torch.allclose(rooted_mean, network(images).mean((2, 3)), atol=1e-5)
    assert torch.allclose(maximum, published.flatten(2).max(2).values)
    assert torch.allclose(classes.square(), (network.logits(mean) / 2).softmax(1), atol=1e-6)
    assert torch.allclose(classes.square().sum(1), torch.ones(2))
    seen: list[Tensor] = []
    hook = network.blocks[11].depthwise.register_forward_hook(lambda _module, _read, output: seen.append(output))
    network.published(images)
    hook.remove()
    assert middle.shape == (2, 672)
    assert torch.allclose(middle.square(), seen[0].amax((2, 3)), atol=1e-5)


@torch.no_grad()
def test_a_reading_is_the_mean_of_its_map_over_locations(network: EfficientNetLite, images: Tensor) -> None:
    for reading, maps in zip(readings(network, images), reading_maps(network, images), strict=True):
        assert maps.shape[2:] == (2, 3)
        assert torch.allclose(maps.mean((2, 3)), reading, atol=1e-5)


def test_a_maximum_stands_where_it_was_found() -> None:
    maps = torch.tensor([[[[1.0, 3.0], [2.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]])
    expected = torch.tensor([[[[0.0, 12.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]])
    assert torch.equal(at_its_place(maps), expected)


@torch.no_grad()
def test_the_generalised_mean_is_read_from_a_map_of_which_it_is_the_mean() -> None:
    network = toy_base(centred=True).network
    images = noise(3, 3, 64, 64).float()
    mean, generalised = readings(network, images)
    phi = network(images)
    assert torch.allclose(mean, phi.mean((2, 3)))
    assert torch.allclose(generalised, phi.clamp(min=0).square().mean((2, 3)).sqrt())
    for reading, maps in zip((mean, generalised), reading_maps(network, images), strict=True):
        assert maps.shape[2:] == (4, 4)
        assert torch.allclose(maps.mean((2, 3)), reading, atol=1e-6)
    assert (phi.amax((2, 3)) <= 0).sum() == (generalised == 0).sum() > 0  # nowhere positive: zero, not nan


@torch.no_grad()
def test_of_any_other_network_the_mean_of_phi_is_read() -> None:
    base = toy_base()
    images = noise(2, 3, 32, 32).float()
    (reading,) = readings(base.network, images)
    (maps,) = reading_maps(base.network, images)
    assert torch.equal(maps, base.network(images))
    assert torch.allclose(reading, maps.mean((2, 3)))
