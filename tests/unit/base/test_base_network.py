"""A frozen network with its preprocessing."""

import copy
import pickle

import pytest
import torch

from implanting.base import load_base
from implanting.base.base_network import weights
from implanting.errors import ImageTooSmall
from rounding import assert_near
from toys import noise, same, toy_base


def test_a_base_is_frozen():
    base = toy_base()
    for part in (base.network, base.classifier):
        assert not any(weight.requires_grad for weight in part.parameters())
        assert not any(module.training for module in part.modules())


def test_embedding_changes_nothing():
    base, images = toy_base(), noise(5, 32, 32, 3)
    before = {name: tensor.clone() for name, tensor in weights(base.network, base.classifier).items()}
    pixels = images.clone()
    first = base.embed(images)
    assert torch.equal(base.embed(images), first)
    assert same(weights(base.network, base.classifier), before)
    assert torch.equal(images, pixels)


def test_images_are_normalised_before_they_are_embedded():
    base, image = toy_base(), noise(1, 32, 32, 3)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in ((0.4, 0.5, 0.6), (0.2, 0.25, 0.3)))
    maps = base.network((image.permute(0, 3, 1, 2) / 255 - mean) / std)
    assert_near(base.embed(image)[0], maps[0].flatten(1).T)


def test_too_small_an_image_is_refused():
    with pytest.raises(ImageTooSmall):
        toy_base().embed(noise(1, 15, 32, 3))


def test_what_others_read_of_a_base():
    base = toy_base(pooling="gap")
    assert (base.preprocessing.image_size, base.preprocessing.resizing, base.pooling) == ((32, 32), "none", "gap")
    assert base.tail == base.network.tail
    assert torch.equal(base.class_weights, base.classifier.class_weights)
    assert base.map_size(48, 32) == (3, 2)
    assert base.name == "resnet12 of width 2 trained on toy"
    assert base.finished


def test_the_imagenet_base_knows_no_classes_of_a_cosine():
    base = load_base("efficientnet-lite0")
    assert base.class_weights is None
    assert base.class_names == ()
    assert base.preprocessing.image_size == (224, 224)
    assert base.map_size(224, 224) == (7, 7)


def test_a_base_is_folded_once_and_shared_by_copies():
    base = toy_base()
    empty = len(pickle.dumps(base))
    expected = base.embed(noise(2, 32, 32, 3))
    quick = base.quick
    assert base.to("cpu").quick is quick
    assert copy.deepcopy({"base": base})["base"] is base
    content = pickle.dumps(base)
    assert len(content) < 1.1 * empty  # the weights are in it once
    assert torch.equal(pickle.loads(content).embed(noise(2, 32, 32, 3)), expected)
