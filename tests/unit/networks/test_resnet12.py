import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from implanting.config import NetworkConfig
from implanting.errors import ConfigError, ImageTooSmall
from implanting.networks import Network, build_network
from implanting.networks.resnet12 import ResidualBlock, c64f, c128f, convolution, resnet12
from toys import seeded, unsettle


def count(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def images(*size: int) -> Tensor:
    return torch.randn(2, 3, *size, generator=seeded())


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (NetworkConfig("resnet12"), 7_996_800),
        (NetworkConfig("c128f"), 260_544),
        (NetworkConfig("resnet12", wide=True), 8_337_408),
    ],
)
def test_parameter_counts_of_the_paper(config, parameters):
    assert count(build_network(config)) == parameters


def test_parameters_of_each_residual_block():
    assert [count(block) for block in resnet12().blocks] == [76_160, 377_856, 1_509_376, 6_033_408]


@pytest.mark.parametrize(("size", "sides"), [(84, [42, 21, 10, 5]), (32, [16, 8, 4, 2])])
@pytest.mark.parametrize(("build", "channels"), [(resnet12, [4, 8, 16, 32]), (c128f, [4, 4, 8, 8])])
def test_map_of_each_block(build, channels, size, sides):
    network = build(4).eval()
    shapes = [part.shape for part in maps_of(network, images(size, size))]
    assert shapes == [(2, *shape) for shape in zip(channels, sides, sides, strict=True)]
    assert network.map_size(size, size) == (sides[-1], sides[-1])
    assert network.dim == channels[-1]


def maps_of(network: Network, x: Tensor) -> list[Tensor]:
    """What each block gives in turn."""
    maps = []
    for block in network.blocks:
        x = block(x)
        maps.append(x)
    return maps


def naive_norm(x: Tensor, norm: nn.BatchNorm2d) -> Tensor:
    channels = []
    for channel in range(x.shape[1]):
        mean, variance = norm.running_mean[channel], norm.running_var[channel]
        normalised = (x[:, channel] - mean) / math.sqrt(variance + norm.eps)
        channels.append(norm.weight[channel] * normalised + norm.bias[channel])
    return torch.stack(channels, 1)


def naive_swish(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def naive_pool(x: Tensor) -> Tensor:
    rows, columns = x.shape[2] // 2, x.shape[3] // 2
    output = torch.empty(*x.shape[:2], rows, columns)
    for row in range(rows):
        for column in range(columns):
            output[:, :, row, column] = x[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].amax((2, 3))
    return output


def naive_block(x: Tensor, block: ResidualBlock) -> list[Tensor]:
    a1 = naive_swish(naive_norm(F.conv2d(x, block.conv1.weight, padding=1), block.norm1))
    a2 = naive_swish(naive_norm(F.conv2d(a1, block.conv2.weight, padding=1), block.norm2))
    u3 = naive_norm(F.conv2d(a2, block.conv3.weight, padding=1), block.norm3)
    shortcut = naive_norm(F.conv2d(x, block.shortcut.weight), block.shortcut_norm)
    return [a1, a2, naive_pool(naive_swish(u3 + shortcut))]


@pytest.mark.usefixtures("in_float64")
@torch.no_grad()
def test_residual_block_equals_the_specification_written_out():
    block = ResidualBlock(3, 5).eval()
    unsettle(block)
    x = images(7, 10)
    for actual, expected in zip(block.activations(x), naive_block(x, block), strict=True):
        torch.testing.assert_close(actual, expected)


@torch.no_grad()
@pytest.mark.parametrize("build", [resnet12, c128f])
def test_phi_is_what_the_last_block_makes_of_the_map_before_it(build):
    network = build(2).eval()
    x = images(37, 50)
    *_, before, phi = maps_of(network, x)
    assert torch.equal(network.before_last(x), before)
    assert torch.equal(network(x), phi)


@torch.no_grad()
def test_activations_of_the_last_block():
    network = resnet12(2).eval()
    z = network.before_last(images(84, 84))
    a1, a2, a3 = network.blocks[3].activations(z)
    assert a1.shape == a2.shape == (2, 16, 10, 10)
    assert a3.shape == (2, 16, 5, 5)
    assert torch.equal(a3, network.blocks[3](z))


@pytest.mark.usefixtures("in_float64")
@torch.no_grad()
@pytest.mark.parametrize("build", [resnet12, c128f, c64f])
def test_without_the_last_pool_the_network_ends_one_max_pool_earlier(build):
    pooled, network = build(2).eval(), build(2, last_pool=False).eval()
    unsettle(pooled)
    network.load_state_dict(pooled.state_dict())
    x = images(37, 50)
    assert network(x).shape[2:] == network.map_size(37, 50) == (4, 6)
    assert torch.equal(naive_pool(network(x)), pooled(x))


@pytest.mark.parametrize("build", [resnet12, c128f])
def test_odd_sizes_are_pooled_rounding_down(build):
    network = build(2).eval()
    assert network(images(37, 50)).shape[2:] == network.map_size(37, 50) == (2, 3)


@pytest.mark.parametrize("size", [(15, 40), (40, 15)])
def test_too_small_an_image_is_refused(size):
    assert resnet12(1).map_size(16, 16) == (1, 1)
    with pytest.raises(ImageTooSmall, match=r"15.*16 x 16"):
        resnet12(1).map_size(*size)


@torch.no_grad()
def test_only_the_last_block_of_c128f_is_without_relu():
    network = c128f(4).eval()
    unsettle(network)
    smallest = [part.min() for part in maps_of(network, images(64, 64))]
    assert all(value >= 0 for value in smallest[:3])
    assert smallest[3] < 0


def test_wide_widens_the_last_block_only():
    network = resnet12(4, wide=True)
    assert [block.conv3.out_channels for block in network.blocks] == [4, 8, 16, 32 + 16]
    assert network.dim == 48


def test_convolutions_begin_with_fan_out():
    weight = convolution(64, 32, 3).weight
    assert weight.std().item() == pytest.approx(math.sqrt(2 / (9 * 32)), rel=0.03)


@pytest.mark.parametrize("build", [resnet12, c128f, c64f])
def test_members_start_like_networks_of_their_own_and_do_not_mix(build):
    torch.manual_seed(0)
    network = build(16, members=3)
    for layer in (module for module in network.modules() if isinstance(module, nn.Conv2d)):
        fan_out = layer.kernel_size[0] ** 2 * layer.out_channels / 3
        assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / fan_out), rel=0.15)
    x = images(32, 32).requires_grad_()
    shared = network.blocks[0](x)
    channels = shared.shape[1] // 3
    last = shared
    for block in network.blocks[1:]:
        last = block(last)
    (gradient,) = torch.autograd.grad(last[:, : network.dim // 3].sum(), shared)
    assert gradient[:, :channels].abs().max() > 0
    assert gradient[:, channels:].abs().max() == 0


def test_wide_is_for_one_network():
    with pytest.raises(ConfigError, match="`wide` adds channels to one network"):
        NetworkConfig(wide=True, members=2)
    with pytest.raises(ConfigError, match="`members` is 0"):
        NetworkConfig(members=0)
