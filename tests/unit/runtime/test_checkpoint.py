import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from implanting.errors import CheckpointError, ConfigError
from implanting.runtime import check_destination, checkpoint, part, prefixed, read_checkpoint, write_checkpoint

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(7)}
DOCUMENT = {"name": "ünïcode", "numbers": [1, 0.1], "nothing": None}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "base.safetensors"
    write_checkpoint(file, "base", DOCUMENT, TENSORS)
    return file


def test_round_trip(path):
    document, tensors = read_checkpoint(path, "base")
    assert document == {"format": 1, "kind": "base", **DOCUMENT}
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert torch.equal(tensors[name], tensor)
        assert tensors[name].dtype == tensor.dtype


def test_parts_of_a_file_are_told_apart():
    tensors = prefixed("base", TENSORS) | prefixed("base.more", {"c": torch.zeros(1)}) | {"basely": torch.ones(1)}
    assert tensors.keys() == {"base.a", "base.b", "base.more.c", "basely"}
    assert part("base", tensors).keys() == {"a", "b", "more.c"}
    assert part("base", tensors)["a"] is TENSORS["a"]
    assert part("other", tensors) == {}


@pytest.mark.parametrize(
    ("name", "said"),
    [("a.png", "ends in .safetensors"), ("none/a.safetensors", "no folder"), ("b.safetensors", "it is a folder")],
)
def test_a_place_where_no_file_can_be_written_is_refused(tmp_path, name, said):
    (tmp_path / "b.safetensors").mkdir()
    with pytest.raises(ConfigError, match=f"`out` .*{said}"):
        check_destination(tmp_path / name)
    check_destination(tmp_path / "a.safetensors")


def test_tensors_of_any_layout_are_stored_by_value(path):
    transposed = torch.arange(6.0).view(2, 3).T
    channels_last = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    write_checkpoint(path, "base", {}, {"t": transposed, "c": channels_last})
    _, tensors = read_checkpoint(path, "base")
    assert torch.equal(tensors["t"], transposed)
    assert torch.equal(tensors["c"], channels_last)


@pytest.mark.parametrize("victim", [(os, "fsync"), (Path, "replace")])
def test_a_failing_write_leaves_the_old_file_and_nothing_else(path, monkeypatch, victim):
    def disk_full(*_):
        raise OSError(28, "No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr(*victim, disk_full)
    with pytest.raises(ConfigError, match=rf"{path.name} cannot be written .No space left"):
        write_checkpoint(path, "base", {"new": True}, {})
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def refused(path: Path, reason: str, kind: str = "base") -> None:
    with pytest.raises(CheckpointError, match=reason) as error:
        read_checkpoint(path, kind)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_truncated(path, kept):
    path.write_bytes(path.read_bytes()[:kept])
    refused(path, "truncated")


@pytest.mark.parametrize("text", ["hello\n", "a long text " * 100])
def test_a_text_file(path, text):
    path.write_text(text)
    refused(path, "cannot be read as safetensors")


def test_a_missing_file(tmp_path):
    refused(tmp_path / "none.safetensors", "no such file")


def test_what_is_no_file_is_named_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.safetensors")
    refused(tmp_path / "pipe.safetensors", "it is a pipe, and a file is needed")
    refused(tmp_path, "it is a folder, and a file is needed")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_foreign_safetensors_file(path, metadata):
    save_file(TENSORS, path, metadata)
    refused(path, "not one of implanting")


def test_a_newer_format(path, monkeypatch):
    monkeypatch.setattr(checkpoint, "FORMAT", 2)
    write_checkpoint(path, "base", {}, TENSORS)
    monkeypatch.undo()
    refused(path, "has format 2; this version reads up to 1")


def test_another_kind(path):
    refused(path, "holds a base; a classifier is needed", kind="classifier")


@pytest.mark.parametrize("header", ["not json", "[]", json.dumps({"kind": "base"})])
def test_a_header_that_is_no_document_of_ours(path, header):
    save_file(TENSORS, path, {checkpoint.KEY: header})
    refused(path, "header")
