import math

import pytest
import torch
import torch.nn.functional as F
from skimage import data
from torch import Tensor

from implanting.base import load_base
from implanting.errors import ConfigError, ImageTooSmall
from implanting.images import load
from implanting.networks import LITE0, LITE2
from implanting.networks.efficientnet import Convolution, EfficientNetLite, build_lite, rooted
from toys import seeded, unsettle

TABBY, TIGER_CAT, EGYPTIAN_CAT, ESPRESSO = 281, 282, 285, 967
"""Numbers of ImageNet's classes."""


PUBLISHED_FACTS = {"efficientnet-lite0": (4_652_008, 7, 16), "efficientnet-lite2": (6_092_072, 9, 21)}
"""Parameters with the classifier, side of the map, blocks."""


@pytest.fixture(scope="module", params=PUBLISHED_FACTS)
def base(request):
    return load_base(request.param)


@pytest.fixture(scope="module")
def network(base):
    return base.network


def imagenet_probabilities(base, photo) -> Tensor:
    size = min(base.preprocessing.image_size)
    image = base.preprocessing.normalisation(torch.tensor(load(photo, size))[None])
    with torch.inference_mode():
        return base.network.logits(base.network.published(image).mean((2, 3))).softmax(1)[0]


def test_published_facts(base):
    network, side = base.network, base.network.variant.image_size
    parameters, locations, blocks = PUBLISHED_FACTS[base.name]
    assert sum(parameter.numel() for parameter in network.parameters()) + 1000 * 1280 + 1000 == parameters
    assert network.dim == 1280
    assert network.map_size(side, side) == (locations, locations)
    assert len(network.blocks) == blocks


def test_channels_and_blocks_are_rounded_as_tensorflow_does():
    # The first two figures are the published ones of Lite2; 0.9 of 24 channels are 21.6, nearest to 24, and 0.3 of them
    # 7.2, of which 8 is the least that there may be.
    assert [stage.channels for stage in LITE2.stages()] == [16, 24, 48, 88, 120, 208, 352]
    assert [stage.blocks for stage in LITE2.stages()] == [1, 3, 3, 4, 4, 5, 1]
    assert LITE0._replace(width=0.9).stages()[1].channels == 24
    assert LITE0._replace(width=0.3).stages()[1].channels == 8
    assert LITE0._replace(width=0.75).stages()[0].channels == 16  # 12 would be rounded to 16, not to 8
    assert LITE0._replace(width=1.21).stages()[0].channels == 24  # 16 is less than nine tenths of 19.36


def test_a_cat_is_a_cat_and_an_espresso_an_espresso(base):
    cats = imagenet_probabilities(base, data.cat())
    assert cats[[TABBY, TIGER_CAT, EGYPTIAN_CAT]].sum() > 0.8
    assert imagenet_probabilities(base, data.coffee())[ESPRESSO] > 0.85


def test_weights_of_another_variant_are_refused():
    with pytest.raises(RuntimeError, match="state_dict"):
        build_lite(EfficientNetLite(LITE0).state_dict(), LITE2)


def test_the_classifier_of_imagenet_is_no_part_of_what_is_saved(network):
    assert network.class_weights.shape == (1000, 1280)
    assert not any("class" in name for name in network.state_dict())
    alone = build_lite(network.state_dict(), network.variant)
    with pytest.raises(ConfigError, match="without the weights of ImageNet's classifier"):
        alone.logits(torch.zeros(1, 1280))


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
def test_the_map_that_implants_read(network):
    x = torch.randn(1, 3, 70, 45, generator=seeded())
    (read,), phi = network.activations(x)
    assert torch.equal(phi, network(x))
    assert phi.shape[2:] == read.shape[2:] == network.map_size(70, 45) == (3, 2)
    torch.testing.assert_close(rooted(network.head(read)), phi)


def test_the_tail_is_the_head(network):
    (layer,) = network.tail.layers
    head = network.head.conv
    assert (layer.reads, layer.channels, layer.kernel, layer.stride) == (0, head.in_channels, 1, 1)
    assert (layer.below, layer.adds, layer.activation, layer.pool) == (None, None, "relu6", 1)


def test_too_small_an_image_is_refused(network):
    assert network.map_size(32, 33) == (1, 2)
    with pytest.raises(ImageTooSmall, match=r"31 x 224.*32 x 32"):
        network.map_size(224, 31)
