import pytest
import torch
from torch import nn

from implanting.config import NetworkConfig
from implanting.networks import EfficientNetLite, Embedding, ModuleNetwork, SideBySide, build_network
from toys import seeded

NETWORKS = [
    build_network(NetworkConfig("resnet12", 2)),
    build_network(NetworkConfig("c128f", 2)),
    EfficientNetLite(),
    SideBySide([EfficientNetLite(), EfficientNetLite()]),
    ModuleNetwork(nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU()), (32, 32)),
]


@torch.no_grad()
@pytest.mark.parametrize("network", NETWORKS, ids=["resnet12", "c128f", "efficientnet-lite0", "two", "own module"])
def test_every_network_offers_what_is_asked_of_one(network):
    assert isinstance(network, Embedding)
    maps, phi = network.eval().activations(torch.randn(2, 3, 40, 48, generator=seeded()))
    assert phi.shape == (2, network.dim, *network.map_size(40, 48))
    assert len(maps) == len({layer.reads for layer in network.tail.layers} if network.tail else ())
    assert isinstance(network.identity_text, str)
    assert network.thread_safe in (True, False)
    assert network.numbers_per_pixel > 0


def test_a_module_that_knows_nothing_of_it_is_no_embedding():
    assert not isinstance(nn.Conv2d(3, 4, 3), Embedding)
