"""CIFAR-100 as published: Python-2 pickles in a tar.gz, channels first, train and test apart."""

import io
import json
import tarfile

import numpy as np
import pytest
import torch

import python2_pickle
from implanting.datasets import read_dataset
from implanting.errors import DataError, UnsafePickle

NAMES = ["apple", "bear", "crab"]


def part(labels: list[int], offset: int) -> bytes:
    """Image i is red i, green 100 + i, blue 200 + i (plus the offset)."""
    numbers = np.arange(len(labels)) + offset
    planes = np.stack([numbers, numbers + 100, numbers + 200], 1).astype(np.uint8)
    return python2_pickle.dumps({"data": np.repeat(planes, 1024, axis=1), "fine_labels": labels, "batch_label": "x"})


@pytest.fixture
def parts() -> dict[str, bytes]:
    meta = python2_pickle.dumps({"fine_label_names": NAMES, "coarse_label_names": ["thing"]})
    return {"train": part([2, 0, 1, 0], 0), "test": part([0, 2], 10), "meta": meta}


@pytest.fixture
def splits(tmp_path):
    path = tmp_path / "splits.json"
    path.write_text(json.dumps({"train": ["crab", "apple"], "test": ["bear"]}))
    return path


def write_archive(folder, parts):
    path = folder / "cifar-100-python.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in parts.items():
            member = tarfile.TarInfo(f"cifar-100-python/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def write_folder(folder, parts):
    folder = folder / "cifar-100-python"
    folder.mkdir()
    for name, content in parts.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("write", [write_archive, write_folder])
@pytest.mark.parametrize("parent", [True, False])
def test_train_and_test_files_are_merged(tmp_path, parts, splits, write, parent):
    path = write(tmp_path, parts)
    found = read_dataset(path.parent if parent else path, "train", splits=splits)
    assert found.class_names == ("apple", "crab")
    assert found.labels.tolist() == [1, 0, 0, 0, 1]
    assert found.images.shape == (5, 32, 32, 3)
    expected = torch.tensor([[level, level + 100, level + 200] for level in (0, 1, 3, 10, 11)], dtype=torch.uint8)
    assert torch.equal(found.images, expected[:, None, None].expand(-1, 32, 32, -1))


def test_name_says_the_published_split(tmp_path, parts):
    names = json.dumps({"train": ["apple"]})
    (tmp_path / "own.json").write_text(names)
    assert read_dataset(write_folder(tmp_path, parts), splits=tmp_path / "own.json").name == "CIFAR-100 train"


def test_splits_are_needed(tmp_path, parts):
    with pytest.raises(DataError, match="comes without few-shot splits: give `splits` fc100, cifar-fs"):
        read_dataset(write_archive(tmp_path, parts))


def test_unknown_class(tmp_path, parts):
    with pytest.raises(DataError, match="has no class 'aquarium_fish', which `splits` fc100 lists"):
        read_dataset(write_archive(tmp_path, parts), splits="fc100")


def test_damaged_archive(tmp_path, parts, splits):
    parts["train"] += np.random.default_rng(0).bytes(100_000)
    path = write_archive(tmp_path, parts)
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(DataError, match=r"truncated.*get it again"):
        read_dataset(path, splits=splits)


def test_another_archive(tmp_path, parts, splits):
    del parts["meta"]
    with pytest.raises(DataError, match="holds no cifar-100-python/meta"):
        read_dataset(write_archive(tmp_path, parts), splits=splits)


def test_cifar_10_pickles_are_not_taken(tmp_path, parts, splits):
    parts["train"] = python2_pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [0]})
    with pytest.raises(DataError, match="train lacks data or fine_labels"):
        read_dataset(write_folder(tmp_path, parts), splits=splits)


def test_wrong_number_of_labels(tmp_path, parts, splits):
    parts["test"] = python2_pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "fine_labels": [0, 1]})
    with pytest.raises(DataError, match=r"test has 1 images and 2 labels"):
        read_dataset(write_folder(tmp_path, parts), splits=splits)


def test_code_in_the_archive_is_refused(tmp_path, parts, splits):
    parts["train"] = b"cos\nsystem\n(S'true'\ntR."
    with pytest.raises(UnsafePickle, match=r"train asks for os\.system"):
        read_dataset(write_archive(tmp_path, parts), splits=splits)


@pytest.mark.parametrize("labels", [[0, 3], [0, -1], [0, "1"], 3, np.array(3), [0]])
def test_labels_that_are_no_classes_are_refused(tmp_path, parts, splits, labels):
    data = np.zeros((2, 3072), np.uint8)
    parts["test"] = python2_pickle.dumps({"data": data, "fine_labels": labels})
    with pytest.raises(DataError, match="test"):
        read_dataset(write_folder(tmp_path, parts), splits=splits)


@pytest.mark.parametrize("names", [[], ["apple", "apple", "bear"]])
def test_names_that_are_missing_or_repeated_are_refused(tmp_path, parts, splits, names):
    parts["meta"] = python2_pickle.dumps({"fine_label_names": names, "coarse_label_names": ["thing"]})
    write_archive(tmp_path, parts)
    with pytest.raises(DataError, match=f"meta names {len(names)} classes, {len(set(names))} of them distinct"):
        read_dataset(tmp_path, "train", splits=splits)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_link_in_an_archive_is_refused(tmp_path, parts, splits, kind):
    path = tmp_path / "cifar-100-python.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in parts:
            member = tarfile.TarInfo(f"cifar-100-python/{name}")
            member.type, member.linkname = kind, f"cifar-100-python/{name}"  # a link to itself
            archive.addfile(member)
    with pytest.raises(DataError, match="is not a regular file"):
        read_dataset(path, splits=splits)


@pytest.mark.parametrize("kept", [3, 9, 12, 40])
def test_an_archive_that_is_cut_off_in_its_header_is_named(tmp_path, parts, splits, kept):
    path = write_archive(tmp_path, parts)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"cifar-100-python\.tar\.gz"):
        read_dataset(path, "train", splits=splits)
