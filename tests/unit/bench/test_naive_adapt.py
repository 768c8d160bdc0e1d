"""The rival of `bench adapt` trains what stage 2 trains, and what its twin in the tests does."""

import torch

from implanting.bench.naive_adapt import adapt_one_task, implants_of
from implanting.bench.noise import fresh_network
from implanting.config import ImplantConfig, NetworkConfig
from implanting.dense_classification import locations
from implanting.implants import Implants, Supports
from implanting.implants.adaptation import adapt
from implanting.implants.stream import new_implants
from toys import seeded, unsettle
from twins import naive_adapt

CONFIG = ImplantConfig(implant_channels=3, implant_epochs=8, implant_learning_rate=1e-2)
LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 1, 2, 0])


def kernels(implants: Implants) -> list[torch.Tensor]:
    """The convolutions of the one task, those of base and of implant inputs in one."""
    weights = [[layer.base_weight, layer.implant_weight] for layer in implants.layers]
    return [torch.cat([part for part in parts if part is not None], dim=2)[0].detach().clone() for parts in weights]


def norms(implants: Implants) -> list[torch.Tensor]:
    return [part.detach().flatten().clone() for layer in implants.layers for part in (layer.gamma, layer.beta)]


def test_the_rival_makes_the_same_implants_as_stage_2_and_as_the_twin():
    network = fresh_network(NetworkConfig(width=2), 32)
    unsettle(network)
    images = torch.randn(len(LABELS), 3, 32, 32, generator=seeded(1)) + LABELS[:, None, None, None]
    with torch.no_grad():
        maps, phi = network.activations(images)
    sizes = tuple((part.shape[2], part.shape[3]) for part in maps)
    base_maps, base_phi = [locations(part)[None] for part in maps], locations(phi)[None]

    start = new_implants(network.tail, sizes, 3, [seeded(2)])
    rival = implants_of(network, CONFIG)
    convolutions = [rival.conv1, rival.conv2, rival.conv3, rival.shortcut]
    for convolution, weight in zip(convolutions, kernels(start), strict=True):
        convolution.weight.data.copy_(weight)
    adapt_one_task(network, images, LABELS, rival, CONFIG)

    ours = adapt(Supports(base_maps, base_phi, LABELS, sizes), network.tail, CONFIG, [seeded(2)])
    twin = new_implants(network.tail, sizes, 3, [seeded(2)])
    naive_adapt(twin, base_maps, base_phi, LABELS, CONFIG)
    rivals_norms = [part.detach() for norm in rival.norms for part in (norm.weight, norm.bias)]
    for other in (ours, twin):
        for convolution, weight, before in zip(convolutions, kernels(other), kernels(start), strict=True):
            torch.testing.assert_close(convolution.weight.detach(), weight, rtol=1e-4, atol=1e-5)
            assert (weight - before).abs().max() > 0.03
        torch.testing.assert_close(rivals_norms, norms(other), rtol=1e-4, atol=1e-5)
