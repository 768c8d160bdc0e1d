"""Class lists: published, from a file, by seed."""

import json

import pytest

from implanting.datasets import read_class_lists
from implanting.datasets.splits import NAMED, check_lists, split_by_seed
from implanting.errors import DataError


@pytest.mark.parametrize(
    ("name", "sizes"), [("fc100", [60, 20, 20]), ("cifar-fs", [64, 16, 20]), ("miniimagenet", [64, 16, 20])]
)
def test_published_lists(name, sizes):
    lists = read_class_lists(name)
    assert list(lists) == ["train", "val", "test"]
    assert [len(classes) for classes in lists.values()] == sizes
    check_lists(lists, name)
    assert len({label for classes in lists.values() for label in classes}) == 100


def test_all_named_lists_exist_and_names_are_forgiving():
    assert all(read_class_lists(name) for name in NAMED)
    assert read_class_lists("CIFAR_FS") == read_class_lists("cifar-fs")


def test_fc100_splits_whole_super_classes():
    lists = read_class_lists("fc100")
    trees = {"maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"}
    assert trees <= set(lists["train"])
    assert {"baby", "boy", "girl", "man", "woman"} <= set(lists["test"])


@pytest.mark.parametrize("keys", [("train", "val", "test"), ("train", "validation", "test")])
def test_json(tmp_path, keys):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"comment": "ours", **{key: [key] for key in keys}}))
    assert list(read_class_lists(path)) == ["train", "val", "test"]


@pytest.mark.parametrize("header", ["class,split", "label,name,split"])
def test_csv_of_classes(tmp_path, header):
    path = tmp_path / "s.csv"
    middle = ",x" if "name" in header else ""
    path.write_text(f"{header}\noak{middle},train\nelm{middle},test\nash{middle},train\n")
    assert read_class_lists(str(path)) == {"train": ["ash", "oak"], "test": ["elm"]}


def test_csv_of_files_with_its_siblings(tmp_path):
    (tmp_path / "train.csv").write_text("filename,label\na.jpg,oak\nb.jpg,oak\nc.jpg,ash\n")
    (tmp_path / "test.csv").write_text("filename,label\nd.jpg,elm\n")
    assert read_class_lists(tmp_path / "train.csv") == {"train": ["ash", "oak"], "test": ["elm"]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.json", '{"train": ["oak"], "test": ["elm", "oak"]}', "class 'oak' is in both train and test"),
        ("s.csv", "class,split\noak,train\noak,val\n", "class 'oak' is in both train and val"),
        ("s.csv", "class,split\noak,trian\n", "split 'trian'; needed is one of train, val, test"),
        ("s.csv", "class,split\noak\n", "too few columns"),
        ("s.csv", "tree,split\noak,train\n", "needed in its header: label"),
        ("s.csv", "filename,label\na.jpg,oak\n", "needed are columns class and split, or files train.csv"),
        ("s.json", '{"train": ["oak"', "is not JSON"),
        ("s.json", '["oak"]', "needed are lists of class names"),
        ("s.json", '{"train": {"oak": 1}}', "needed are lists of class names"),
        ("s.json", '{"train": [1, 2]}', "needed are lists of class names"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError, match=rf"{name}.*{message}"):
        read_class_lists(path)


def test_neither_name_nor_file():
    with pytest.raises(DataError, match="`splits` fc1000 is neither an existing file nor one of fc100, cifar-fs"):
        read_class_lists("fc1000")


@pytest.mark.parametrize(
    ("classes", "sizes"),
    [(100, [64, 16, 20]), (25, [16, 4, 5]), (5, [3, 1, 1]), (3, [1, 1, 1]), (2, [1, 0, 1]), (1, [1, 0, 0])],
)
def test_sizes_of_a_split_by_seed(classes, sizes):
    names = [f"class {index}" for index in range(classes)]
    lists = split_by_seed(names, seed=0)
    assert [len(lists.get(split, [])) for split in ("train", "val", "test")] == sizes
    assert sorted(name for part in lists.values() for name in part) == sorted(names)


def test_split_by_seed_depends_on_names_and_seed_alone():
    names = [f"class {index}" for index in range(20)]
    assert split_by_seed(names[::-1], seed=1) == split_by_seed(names, seed=1)
    assert split_by_seed(names, seed=2) != split_by_seed(names, seed=1)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_tables_in_marked_encodings_are_read(tmp_path, encoding):
    (tmp_path / "classes.csv").write_text("class,split\nhêtre,train\nif,test\n", encoding=encoding)
    assert read_class_lists(tmp_path / "classes.csv") == {"train": ["hêtre"], "test": ["if"]}


def test_other_encodings_are_named(tmp_path):
    (tmp_path / "classes.csv").write_text("class,split\nhêtre,train\n", encoding="latin-1")
    with pytest.raises(DataError, match=r"classes\.csv is not text in UTF-8 \(line 2 has the byte 0xea\)"):
        read_class_lists(tmp_path / "classes.csv")
