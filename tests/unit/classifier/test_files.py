"""A saved classifier: all of it comes back, and whatever is wrong with a file is said in one line."""

import dataclasses
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from implanting.base import BaseNetwork, load_base
from implanting.classifier.estimator import FewShotClassifier
from implanting.errors import CheckpointError, ConfigError
from implanting.export.module import ExportedClassifier
from implanting.runtime import FORMAT, read_checkpoint, write_checkpoint
from implanting.runtime.checkpoint import KEY
from rounding import assert_near
from toys import coloured, noise, write_trained_base

SHADES = coloured(classes=4, per_class=6, size=32, seed=1, prefix="shade")
IMAGES, NUMBERS = SHADES.images.numpy(), SHADES.labels.numpy()
NAMES = np.array(["oak", "ash", "beech", "élm"])[NUMBERS]


def fitted(base: BaseNetwork | Path, labels: Any = NAMES, **settings: Any) -> FewShotClassifier:
    settings = {"implants": False, "implant_epochs": 2} | settings
    return FewShotClassifier(base, **settings).fit(IMAGES, labels)


@pytest.fixture(scope="module")
def saved(base: BaseNetwork, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("classifier") / "trees.safetensors"
    fitted(base, implants=True, keep_supports=True, unknown="none", refuse=0.2, random_state=5).save(path)
    return path


@pytest.mark.parametrize("implants", [False, True])
def test_the_generalised_mean_comes_back_and_is_exported(base, tmp_path, implants):
    one = fitted(base, implants=implants, head="prototypes", support_pooling="gem", query_pooling="gem")
    one.save(tmp_path / "one.safetensors")
    other = FewShotClassifier.load(tmp_path / "one.safetensors")
    assert str(other.learned_.classify) == "gem/gem"
    assert np.array_equal(one.predict_proba(IMAGES), other.predict_proba(IMAGES))
    by_mean = fitted(base, implants=implants, head="prototypes", support_pooling="gap", query_pooling="gap")
    assert not np.allclose(one.predict_proba(IMAGES), by_mean.predict_proba(IMAGES))
    exported, _ = ExportedClassifier(one.learned_)(SHADES.images)
    assert_near(exported.numpy(), one.predict_proba(IMAGES), scale=1)
    assert np.isfinite(one.explain(IMAGES[0]).map).all()


@pytest.mark.parametrize("implants", [False, True])
@pytest.mark.parametrize("keep_supports", [False, True])
def test_all_of_it_comes_back(base, tmp_path, implants, keep_supports):
    one = fitted(base, implants=implants, keep_supports=keep_supports, unknown="none", refuse=0.3, random_state=3)
    one.save(tmp_path / "one.safetensors")
    other = FewShotClassifier.load(tmp_path / "one.safetensors")
    assert {**one.get_params(), "base": None} == {**other.get_params(), "base": None}
    asked = np.concatenate([IMAGES, noise(6, 32, 32, 3).numpy()])
    assert np.array_equal(one.predict_proba(asked), other.predict_proba(asked))
    assert np.array_equal(one.predict(asked), other.predict(asked))
    assert np.array_equal(one.open_set_score(asked), other.open_set_score(asked))
    assert one.learned_.calibration == other.learned_.calibration
    assert_near(one.explain(asked[0]).map, other.explain(asked[0]).map)  # sums round by where tensors lie in memory
    other.save(tmp_path / "other.safetensors")
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "other.safetensors").read_bytes()
    if keep_supports:
        assert np.array_equal(other.refit().predict_proba(asked), one.predict_proba(asked))
    else:
        with pytest.raises(ConfigError, match="not kept"):
            other.refit()


def test_the_weight_of_implants_comes_back(base, tmp_path):
    one = fitted(base, implants=True)
    before = one.predict_proba(IMAGES)
    lighter = dataclasses.replace(one.learned_.implants, weight=torch.tensor([0.3]))
    one.learned_ = dataclasses.replace(one.learned_, implants=lighter)
    one.save(tmp_path / "one.safetensors")
    other = FewShotClassifier.load(tmp_path / "one.safetensors")
    assert torch.equal(other.learned_.implants.weight, lighter.weight)
    assert np.array_equal(one.predict_proba(IMAGES), other.predict_proba(IMAGES))
    assert not np.array_equal(before, other.predict_proba(IMAGES))


@pytest.mark.parametrize("weight", [0, -1, 1.5, "0.3", None])
def test_a_weight_of_implants_that_cannot_be_is_refused(saved, tmp_path, weight):
    document, tensors = read_checkpoint(saved, "classifier")
    write_checkpoint(tmp_path / "bad.safetensors", "classifier", {**document, "implant_weight": weight}, tensors)
    with pytest.raises(CheckpointError, match="implant_weight"):
        FewShotClassifier.load(tmp_path / "bad.safetensors")


@pytest.mark.parametrize(
    "labels",
    [NAMES, NAMES.astype(object), NUMBERS, NUMBERS.astype(np.uint8), NUMBERS.astype(np.int32) - 9, NUMBERS > 1],
    ids=["str", "object", "int64", "uint8", "int32", "bool"],
)
def test_labels_keep_their_type(base, tmp_path, labels):
    one = fitted(base, labels)
    one.save(tmp_path / "one.safetensors")
    other = FewShotClassifier.load(tmp_path / "one.safetensors")
    assert other.classes_.dtype == one.classes_.dtype
    assert other.predict(IMAGES).tolist() == one.predict(IMAGES).tolist()


def test_settings_of_numpy_types_are_saved_as_plain_ones(base, tmp_path):
    one = fitted(base, NUMBERS)
    one.set_params(
        unknown=np.int64(-1), refuse=np.float32(0.25), random_state=np.int64(4), keep_supports=np.bool_(False)
    )
    one.save(tmp_path / "one.safetensors")
    other = FewShotClassifier.load(tmp_path / "one.safetensors")
    assert (other.unknown, other.refuse, other.random_state, other.keep_supports) == (-1, 0.25, 4, False)
    one.set_params(random_state=np.random.RandomState(0)).save(tmp_path / "one.safetensors")
    assert FewShotClassifier.load(tmp_path / "one.safetensors").random_state is None


@pytest.mark.parametrize(
    ("labels", "settings", "said"),
    [(NUMBERS.astype(float), {}, "only strings and integers"), (NAMES, {"unknown": ("no", 1)}, "cannot be saved")],
)
def test_what_json_cannot_hold_is_refused_and_nothing_is_written(base, tmp_path, labels, settings, said):
    with pytest.raises(ConfigError, match=said):
        fitted(base, labels, **settings).save(tmp_path / "one.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_safetensors_with_a_format_number(saved):
    with safe_open(saved, "pt") as file:
        document = json.loads(file.metadata()[KEY])
    assert (document["format"], document["kind"]) == (FORMAT, "classifier")
    assert document["classes"] == ["ash", "beech", "oak", "élm"]
    names = load_file(saved).keys()
    assert {"prototypes", "counts", "supports.images", "implants.0.gamma"} < names


def test_images_added_after_loading_are_seen_in_as_many_views(base, tmp_path):
    classifier = fitted(base, head="prototypes")
    classifier.learned_ = dataclasses.replace(classifier.learned_, support_views=6)
    classifier.save(tmp_path / "c.safetensors")
    again = FewShotClassifier.load(tmp_path / "c.safetensors")
    assert again.learned_.support_views == 6


def test_changed_classifiers_are_saved_as_they_are(base, tmp_path):
    one = fitted(base, keep_supports=True).remove_class("oak").add_class("a very long name", IMAGES[:2])
    one.save(tmp_path / "one.safetensors")
    other = FewShotClassifier.load(tmp_path / "one.safetensors")
    assert other.classes_.tolist() == ["a very long name", "ash", "beech", "élm"]
    assert np.array_equal(other.refit().predict_proba(IMAGES), one.refit().predict_proba(IMAGES))


def test_a_slim_file_finds_its_base_again(base, base_file, tmp_path):
    one, whole, slim = fitted(base), tmp_path / "whole.safetensors", tmp_path / "slim.safetensors"
    one.save(whole)
    one.save(slim, slim=True)
    assert not any(name.startswith("base.") for name in load_file(slim))
    assert any(name.startswith("base.") for name in load_file(whole))
    for given in (base_file, str(base_file), base):
        other = FewShotClassifier.load(slim, base=given)
        assert np.array_equal(other.predict_proba(IMAGES), one.predict_proba(IMAGES))
    with pytest.raises(CheckpointError, match=r"slim and needs its base network .* missing: name its file with `base`"):
        FewShotClassifier.load(slim)
    stranger = write_trained_base(tmp_path / "stranger.safetensors", seed=3)
    for path in (slim, whole):
        with pytest.raises(CheckpointError, match="this base is another"):
            FewShotClassifier.load(path, base=stranger)


def test_a_slim_file_remembers_where_its_base_was(base_file, tmp_path, monkeypatch):
    slim = tmp_path / "slim.safetensors"
    one = fitted(base_file)
    one.save(slim, slim=True)
    again = FewShotClassifier.load(slim)
    assert np.array_equal(again.predict_proba(IMAGES), one.predict_proba(IMAGES))
    again.save(tmp_path / "slimmer.safetensors", slim=True)
    assert (tmp_path / "slimmer.safetensors").read_bytes() == slim.read_bytes()


def header_of(content: bytes) -> tuple[dict[str, Any], int]:
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), 8 + length


def flipped(path: Path, tensor: str) -> bytes:
    """The file with one byte of a tensor changed."""
    content = bytearray(path.read_bytes())
    header, start = header_of(bytes(content))
    first, last = header[tensor]["data_offsets"]
    content[start + (first + last) // 2] ^= 0x40
    return bytes(content)


def rewritten(**changes: Any) -> Callable[[Path], bytes]:
    """The file with other entries in its document."""

    def spoil(path: Path) -> bytes:
        document, tensors = read_checkpoint(path, "classifier")
        fields = {name: value for name, value in document.items() if name not in ("format", "kind")} | changes
        other = path.with_name("rewritten")
        write_checkpoint(other, "classifier", fields, tensors)
        return other.read_bytes()

    return spoil


def newer(path: Path) -> bytes:
    return path.read_bytes().replace(f'{{\\"format\\": {FORMAT}'.encode(), b'{\\"format\\": 9')


DAMAGES = {
    "truncated": (lambda path: path.read_bytes()[:-50], "truncated"),
    "cut in its header": (lambda path: path.read_bytes()[:100], "truncated"),
    "empty": (lambda path: b"", "truncated"),
    "a text": (lambda path: b"I am no classifier.\n" * 20, "truncated, damaged or of another kind"),
    "its base": (lambda path: flipped(path, "base.network.blocks.0.conv1.weight"), "its base network"),
    "its prototypes": (lambda path: flipped(path, "prototypes"), "its tensors do not match their digest"),
    "its implants": (lambda path: flipped(path, "implants.1.base_weight"), "its tensors do not match their digest"),
    "newer": (newer, "has format 9; this version reads up to 1: update implanting"),
    "a class too few": (rewritten(classes=["ash", "oak"]), "is .*4.*, and needed is .*2"),
    "no settings": (rewritten(settings=None), "damaged"),
    "a strange setting": (rewritten(settings={"colour": 3}), "damaged"),
    "a list for a label": (rewritten(settings={"unknown": []}), "settings.unknown"),
    "a text for a share": (rewritten(settings={"refuse": "few"}), "settings.refuse"),
    "half an epoch": (rewritten(settings={"implant_epochs": 0.5}), "settings.implant_epochs"),
    "no calibration": (rewritten(calibration={}), "damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_one_clear_line(saved, tmp_path, damage):
    spoil, said = DAMAGES[damage]
    path = tmp_path / "spoilt.safetensors"
    path.write_bytes(saved.read_bytes())
    content = spoil(path)
    assert content != saved.read_bytes()
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=said) as error:
        FewShotClassifier.load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    assert path.read_bytes() == content


def test_a_base_is_no_classifier_and_a_classifier_no_base(saved, base_file, tmp_path):
    with pytest.raises(CheckpointError, match="holds a base; a classifier is needed here"):
        FewShotClassifier.load(base_file)
    with pytest.raises(CheckpointError, match="holds a classifier; a base is needed here"):
        load_base(saved)
    with pytest.raises(CheckpointError, match=r"gone\.safetensors.*`implanting fit`"):
        FewShotClassifier.load(tmp_path / "gone.safetensors")


def test_a_save_that_fails_leaves_the_earlier_file(base, tmp_path, monkeypatch):
    path = tmp_path / "one.safetensors"
    one = fitted(base)
    one.save(path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        one.add_class("fir", IMAGES[:1]).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_base_of_no_description_can_be_referred_to_only(base, tmp_path):
    foreign = BaseNetwork(base.network, base.preprocessing, name="mine", pooling="dense", tau=base.tau)
    one = fitted(foreign)
    with pytest.raises(ConfigError, match="save slim"):
        one.save(tmp_path / "one.safetensors")
    one.save(tmp_path / "one.safetensors", slim=True)
    again = FewShotClassifier.load(tmp_path / "one.safetensors", base=foreign)
    assert torch.equal(again.learned_.prototypes, one.learned_.prototypes)
