import math

import pytest
import torch
import torch.nn.functional as F
from skimage import data
from torch import Tensor

from implanting.base import load_base
from implanting.base.bundled import IMAGENET_PREPROCESSING, imagenet_weights
from implanting.errors import ConfigError, ImageTooSmall
from implanting.images import load
from implanting.networks import EfficientNetLite0
from implanting.networks.efficientnet import Convolution, rooted
from toys import seeded, unsettle

TABBY, TIGER_CAT, EGYPTIAN_CAT, ESPRESSO = 281, 282, 285, 967
"""Numbers of ImageNet's classes."""


@pytest.fixture(scope="module")
def network():
    return load_base("efficientnet-lite0").network


def imagenet_probabilities(network: EfficientNetLite0, photo) -> Tensor:
    """By the published classifier, which a base network leaves out."""
    weights = imagenet_weights()
    image = IMAGENET_PREPROCESSING.normalisation(torch.tensor(load(photo, 224))[None])
    with torch.inference_mode():
        return (network.published(image).mean((2, 3)) @ weights["_fc.weight"].T + weights["_fc.bias"]).softmax(1)[0]


def test_published_facts(network):
    parameters = sum(parameter.numel() for parameter in network.parameters())
    assert parameters + 1000 * 1280 + 1000 == 4_652_008
    assert network.dim == 1280
    assert network.map_size(224, 224) == (7, 7)
    assert len(network.blocks) == 16


def test_a_cat_is_a_cat_and_an_espresso_an_espresso(network):
    cats = imagenet_probabilities(network, data.cat())
    assert cats[[TABBY, TIGER_CAT, EGYPTIAN_CAT]].sum() > 0.8
    assert imagenet_probabilities(network, data.coffee())[ESPRESSO] > 0.9


@torch.inference_mode()
def test_the_pooled_feature_is_the_root_of_the_published_one(network):
    x = torch.randn(2, 3, 64, 96, generator=seeded())
    published = network.published(x).mean((2, 3))
    assert published.min() < 1e-3 < 0.1 < published.max()
    for mean, pooled in zip(published.flatten().tolist(), network(x).mean((2, 3)).flatten().tolist(), strict=True):
        assert pooled == pytest.approx(mean / math.sqrt(mean + 0.1), rel=1e-4, abs=1e-6)
    assert torch.equal(rooted(torch.zeros(1, 2, 3, 3)), torch.zeros(1, 2, 3, 3))


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("size", [(7, 7), (8, 8), (9, 12)])
@pytest.mark.parametrize("kernel", [3, 5])
def test_strided_convolutions_pad_as_tensorflow_does(kernel, size):
    # On even sides "SAME" puts the odd row or column of padding last; the middle of the first window is not pixel 0.
    layer = Convolution(2, 3, kernel, 2, linear=True).eval()
    unsettle(layer)
    x = torch.randn(1, 2, *size, generator=seeded())
    far = F.pad(x, (kernel,) * 4)
    offsets = [(max(0, (math.ceil(side / 2) - 1) * 2 + kernel - side)) // 2 for side in size]
    with torch.no_grad():
        actual = layer(x)
        for row in range(math.ceil(size[0] / 2)):
            for column in range(math.ceil(size[1] / 2)):
                top, left = 2 * row - offsets[0] + kernel, 2 * column - offsets[1] + kernel
                window = far[0, :, top : top + kernel, left : left + kernel]
                summed = (layer.conv.weight * window).sum((1, 2, 3))
                scale = layer.norm.weight / torch.sqrt(layer.norm.running_var + 1e-3)
                expected = (summed - layer.norm.running_mean) * scale + layer.norm.bias
                torch.testing.assert_close(actual[0, :, row, column], expected)
    assert actual.shape[2:] == (math.ceil(size[0] / 2), math.ceil(size[1] / 2))


@torch.inference_mode()
@pytest.mark.parametrize("blocks", [0, 1, 5, 15])
def test_the_maps_that_implants_read(blocks, network):
    other = load_base("efficientnet-lite0").with_implanted_blocks(blocks).network
    x = torch.randn(1, 3, 70, 45, generator=seeded())
    maps, phi = other.activations(x)
    assert torch.equal(phi, network(x))
    assert phi.shape[2:] == other.map_size(70, 45) == (3, 2)
    assert [part.shape[1] for part in maps] == [layer.channels for layer in other.tail.layers]
    assert len(maps) == len({layer.reads for layer in other.tail.layers}) == 3 * blocks + 1
    torch.testing.assert_close(rooted(other.head(maps[-1])), phi)
    if blocks:
        last = other.blocks[-1]
        torch.testing.assert_close(last.expand(maps[-4]), maps[-3])
        torch.testing.assert_close(last.depthwise(maps[-3]), maps[-2])
        torch.testing.assert_close(last.project(maps[-2]), maps[-1])


def test_the_tail_of_the_last_two_blocks():
    expand, depthwise, project, expand2, depthwise2, project2, head = EfficientNetLite0(2).tail.layers
    assert [layer.kernel for layer in (expand, depthwise, project, depthwise2, head)] == [1, 5, 1, 3, 1]
    assert [layer.below for layer in (expand, depthwise, project, expand2, head)] == [None, 0, 1, 2, 5]
    assert (project.activation, depthwise.activation, head.activation) == (None, "relu6", "relu6")
    assert project.adds is None  # nothing is implanted below the first implanted block
    assert project2.adds is None  # 192 -> 320 channels: not residual
    assert (depthwise2.channels, expand2.channels, head.channels) == (1152, 192, 320)
    assert EfficientNetLite0(3).tail.layers[5].adds == 2


def test_a_stride_stands_in_the_description():
    assert [layer.stride for layer in EfficientNetLite0(5).tail.layers] == [1, 2, 1] + 13 * [1]


@pytest.mark.parametrize("blocks", [-1, 16])
def test_blocks_that_are_not_there_are_refused(blocks):
    with pytest.raises(ConfigError, match="0 to 15"):
        EfficientNetLite0(blocks)


def test_too_small_an_image_is_refused(network):
    assert network.map_size(32, 33) == (1, 2)
    with pytest.raises(ImageTooSmall, match=r"31 x 224.*32 x 32"):
        network.map_size(224, 31)
