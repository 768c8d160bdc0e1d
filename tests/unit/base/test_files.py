"""Base networks from files, by name, and inside other documents."""

import json

import pytest
import torch

from implanting.base import MEAN_DIRECTION, base_document, base_from_document, load_base, save_base
from implanting.base.base_network import weights
from implanting.config import NetworkConfig
from implanting.errors import CheckpointError
from toys import noise, same, toy_base

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


@pytest.mark.parametrize("half", [False, True])
def test_a_mean_direction_is_saved_read_and_checked(tmp_path, half):
    base = toy_base(centred=True)
    further = {MEAN_DIRECTION: base.mean_direction}
    save_base(tmp_path / "base", base.network, base.classifier, base.description, further, half=half)
    loaded = load_base(tmp_path / "base")
    assert loaded.mean_direction is not None
    torch.testing.assert_close(loaded.mean_direction, base.mean_direction, rtol=2**-11 if half else 0, atol=0)
    assert (loaded.usage.pooling, loaded.reading_dims) == ("gem-centred", (16, 16))
    assert (loaded.fingerprint == base.fingerprint) is not half
    assert toy_base().fingerprint != base.fingerprint  # another base: its readings differ
    large, huge = torch.full((16,), 0.3), torch.full((16,), 1e300, dtype=torch.float64)
    for wrong in (torch.ones(3), torch.ones(16, dtype=torch.int64), large, huge):
        save_base(tmp_path / "wrong", base.network, base.classifier, base.description, {MEAN_DIRECTION: wrong})
        with pytest.raises(CheckpointError, match="mean direction does not fit"):
            load_base(tmp_path / "wrong")


def test_a_base_in_half_precision_is_half_as_large_and_differs_by_rounding_alone(tmp_path):
    base = toy_base(architecture=NetworkConfig(width=8))
    for half in (False, True):
        save_base(tmp_path / str(half), base.network, base.classifier, base.description, half=half)
    assert (tmp_path / "True").stat().st_size < 0.55 * (tmp_path / "False").stat().st_size
    loaded = load_base(tmp_path / "True")
    state = base.network.state_dict()
    for name, tensor in loaded.network.state_dict().items():
        assert tensor.dtype == state[name].dtype
        torch.testing.assert_close(tensor, state[name], rtol=2**-11, atol=2**-24)


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


@pytest.mark.parametrize(
    ("name", "megabytes"), [("efficientnet-lite0", 18), ("efficientnet-lite2", 24), ("lite0+lite2", 42)]
)
def test_an_imagenet_base_embedded_in_another_document_comes_back(name, megabytes):
    base = load_base(name).with_tau(12.5)
    document, tensors = base_document(base)
    assert sum(tensor.nbytes for tensor in tensors.values()) < megabytes * 2**20
    again = base_from_document(json.loads(json.dumps(document)), tensors)
    assert again.fingerprint == base.fingerprint
    assert (again.tail, again.tau, again.pooling) == (base.tail, 12.5, base.pooling)
    assert (again.preprocessing, again.name) == (base.preprocessing, base.name)
    images = noise(1, 64, 64, 3)
    assert torch.equal(again.embed(images), base.embed(images))
    assert torch.equal(again.read(images), base.read(images))
    with pytest.raises(CheckpointError, match="damaged"):
        base_from_document(document, dict(list(tensors.items())[1:]))
    with pytest.raises(CheckpointError, match="implants in 2 blocks"):
        base_from_document({**document, "implanted_blocks": 2}, tensors)
    with pytest.raises(CheckpointError, match="'other', unknown to this version"):
        base_from_document({**document, "origin": "other"}, tensors)


def test_a_file_of_an_earlier_version_lacks_the_classes_of_imagenet_and_has_one_reading_less():
    base = load_base("efficientnet-lite0")
    document, tensors = base_document(base)
    older = base_from_document(document, {name: value for name, value in tensors.items() if "imagenet" not in name})
    assert older.fingerprint == base.fingerprint
    assert (base.reading_dims, older.reading_dims) == ((1280, 1280, 1000, 672), (1280, 1280, 672))
    assert older.read(noise(1, 64, 64, 3)).shape == (1, 3232)
    assert {len(row) for row in older.usage.head.reading_weights} == {3}


def test_loading_the_imagenet_base_leaves_torch_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    load_base("efficientnet-lite0")
    assert torch.equal(torch.rand(1), expected)
