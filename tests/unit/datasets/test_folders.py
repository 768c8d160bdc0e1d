"""Folders of class folders, split or not."""

import json

import pytest

from implanting.datasets import read_dataset
from implanting.datasets.splits import split_by_seed
from implanting.errors import DataError
from implanting.images import RESIZING

TREES = ["ash", "birch", "elm", "fir", "oak"]


@pytest.fixture
def split_folders(tmp_path, write_images):
    for split, name, level in (("train", "oak", 1), ("train", "ash", 2), ("Val", "elm", 3)):
        write_images(*(tmp_path / split / name / f"{index}.png" for index in range(2)), level=level)
    return tmp_path


@pytest.fixture
def one_folder(tmp_path, write_images):
    for level, name in enumerate(TREES):
        write_images(*(tmp_path / name / f"{index}.png" for index in range(2)), level=level)
    return tmp_path


def test_split_folders(split_folders):
    (split_folders / "train" / "oak" / "notes.txt").write_text("")
    found = read_dataset(split_folders)
    assert (found.class_names, found.labels.tolist(), found.skipped) == (("ash", "oak"), [0, 0, 1, 1], 1)
    assert found.images[:, 0, 0, 0].tolist() == [2, 2, 1, 1]
    assert read_dataset(split_folders, "val").class_names == ("elm",)


@pytest.mark.parametrize("split", ["train", "val"])
def test_shared_class_is_found_whichever_split_is_read(split_folders, write_images, split):
    write_images(split_folders / "test" / "oak" / "0.png")
    with pytest.raises(DataError, match="class 'oak' is in both train and test"):
        read_dataset(split_folders, split)


def test_split_folders_refuse_class_lists(split_folders):
    with pytest.raises(DataError, match="comes with its own splits"):
        read_dataset(split_folders, splits="fc100")


@pytest.mark.parametrize("seed", [0, 1])
def test_one_folder_is_split_by_seed(one_folder, seed):
    lists = split_by_seed(TREES, seed)
    for split in ("train", "val", "test"):
        found = read_dataset(one_folder, split, split_seed=seed)
        assert list(found.class_names) == lists[split]
        assert found.images[::2, 0, 0, 0].tolist() == [TREES.index(name) for name in found.class_names]


def test_one_folder_is_split_by_lists(one_folder):
    (one_folder / "splits.json").write_text(json.dumps({"train": ["oak"], "test": ["elm", "ash"]}))
    assert read_dataset(one_folder, "test", splits=one_folder / "splits.json").class_names == ("ash", "elm")


def test_listed_classes_without_a_folder_matter_only_to_who_reads_them(one_folder):
    (one_folder / "splits.json").write_text(json.dumps({"train": ["oak"], "test": ["elm", "yew"]}))
    assert len(read_dataset(one_folder, "train", splits=one_folder / "splits.json")) == 2
    with pytest.raises(DataError, match="1 of 2 listed classes have no images, such as 'yew'"):
        read_dataset(one_folder, "test", splits=one_folder / "splits.json")


def test_a_class_may_be_called_train(one_folder, write_images):
    write_images(one_folder / "train" / "0.png", one_folder / "train" / "1.png")
    names = [read_dataset(one_folder, split).class_names for split in ("train", "val", "test")]
    assert sorted(sum(names, ())) == sorted([*TREES, "train"])


def test_sizes_that_differ(one_folder, write_images):
    write_images(one_folder / "oak" / "large.png", size=(100, 90))
    (one_folder / "splits.json").write_text(json.dumps({"train": ["oak"], "test": ["elm"]}))
    found = read_dataset(one_folder, splits=one_folder / "splits.json")
    assert (found.images.shape, found.resizing) == ((3, 84, 84, 3), RESIZING)


def test_empty_class_folder(split_folders):
    (split_folders / "train" / "yew").mkdir()
    with pytest.raises(DataError, match="yew holds no image"):
        read_dataset(split_folders)


def test_a_class_of_one_image_cannot_train(split_folders):
    (split_folders / "train" / "oak" / "1.png").unlink()
    with pytest.raises(DataError, match="class 'oak' has 1 image; at least 2 are needed for training"):
        read_dataset(split_folders)


def test_a_novel_class_may_have_one_image(split_folders):
    (split_folders / "Val" / "elm" / "1.png").unlink()
    assert len(read_dataset(split_folders, "val")) == 1
