import copy
import json
import pickle

import pytest
import torch

from implanting.base import base_document, base_from_document, load_base
from implanting.config import NetworkConfig
from implanting.errors import CheckpointError, ImageTooSmall
from implanting.trained import BaseDescription, build, save_base, weights
from toys import noise, same, tiny_config, toy_base

ARCHITECTURES = [NetworkConfig("resnet12", 2), NetworkConfig("c128f", 3), NetworkConfig("resnet12", 2, wide=True)]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("pooling", ["dense", "flatten"])
def test_a_saved_base_comes_back_bit_by_bit(tmp_path, architecture, pooling):
    base = toy_base(architecture=architecture, pooling=pooling)
    save_base(tmp_path / "base", base.network, base.classifier, base.description, {"optimizer.0.x": torch.ones(2)})
    loaded = load_base(str(tmp_path / "base"))
    assert same(weights(loaded.network, loaded.classifier), weights(base.network, base.classifier))
    assert loaded.description == base.description
    assert loaded.tau == base.tau
    images = noise(2, 32, 32, 3)
    assert torch.equal(loaded.embed(images), base.embed(images))


def test_a_description_survives_json():
    description = toy_base().description
    assert BaseDescription.from_document(json.loads(json.dumps(description.document()))) == description


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
    torch.testing.assert_close(base.embed(image)[0], maps[0].flatten(1).T, rtol=1e-4, atol=1e-5)


def test_too_small_an_image_is_refused():
    with pytest.raises(ImageTooSmall):
        toy_base().embed(noise(1, 15, 32, 3))


def test_initial_weights_are_those_of_the_seed_and_leave_torch_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first, again, other = (weights(*build(tiny_config(seed=seed), 3, (32, 32))) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    assert same(first, again)
    assert not same(first, other)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_base_embedded_in_another_document_comes_back(architecture):
    base = toy_base(architecture=architecture)
    document, tensors = base_document(base)
    again = base_from_document({"other": 1, **json.loads(json.dumps(document))}, {**tensors, "other": torch.ones(1)})
    assert again.fingerprint == base.fingerprint
    assert again.description == base.description
    assert (again.tau, again.pooling, again.name, again.class_names) == (
        base.tau,
        base.pooling,
        base.name,
        base.class_names,
    )
    images = noise(2, 32, 32, 3)
    assert torch.equal(again.embed(images), base.embed(images))


def test_a_damaged_embedded_base_is_refused():
    document, tensors = base_document(toy_base())
    with pytest.raises(CheckpointError, match=r"cut\.safetensors is damaged.*network"):
        base_from_document(document, dict(list(tensors.items())[1:]), "cut.safetensors")
    with pytest.raises(CheckpointError, match="damaged: its description"):
        base_from_document({}, tensors)


def test_what_others_read_of_a_base():
    base = toy_base(pooling="gap")
    assert (base.image_size, base.resizing, base.pooling) == ((32, 32), "none", "gap")
    assert base.tail == base.network.tail
    assert torch.equal(base.class_weights, base.classifier.class_weights)
    assert base.map_size(48, 32) == (3, 2)
    assert base.name == "resnet12 of width 2 trained on toy"
    assert base.finished


def test_what_suits_photos():
    tiny, imagenet = toy_base(), load_base("efficientnet-lite0")
    assert (tiny.photo_size, imagenet.photo_size) == (48, 224)
    assert toy_base(pooling="flatten").photo_size == 32  # its classifier has weights for each location of one map
    assert [imagenet.support_views(shots) for shots in (1, 2, 3, 5)] == [6, 6, 1, 1]
    assert tiny.support_views(1) == 1


def test_the_imagenet_base_embedded_in_another_document_comes_back():
    base = load_base("efficientnet-lite0").with_implanted_blocks(2).with_tau(12.5)
    document, tensors = base_document(base)
    assert sum(tensor.nbytes for tensor in tensors.values()) < 14 * 2**20  # the 1000 classes are left out
    again = base_from_document(json.loads(json.dumps(document)), tensors)
    assert again.fingerprint == base.fingerprint
    assert (again.tail, again.tau, again.pooling) == (base.tail, 12.5, base.pooling)
    assert (again.preprocessing, again.name) == (base.preprocessing, base.name)
    images = noise(1, 64, 64, 3)
    assert torch.equal(again.embed(images), base.embed(images))
    with pytest.raises(CheckpointError, match="damaged"):
        base_from_document(document, dict(list(tensors.items())[1:]))
    with pytest.raises(CheckpointError, match="'other', unknown to this version"):
        base_from_document({**document, "origin": "other"}, tensors)


def test_loading_the_imagenet_base_leaves_torch_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    load_base("efficientnet-lite0")
    assert torch.equal(torch.rand(1), expected)


def test_the_imagenet_base_knows_no_classes_of_a_cosine():
    base = load_base("efficientnet-lite0")
    assert base.class_weights is None
    assert base.class_names == ()
    assert base.image_size == (224, 224)
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
