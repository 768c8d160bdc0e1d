"""train.csv, val.csv, test.csv and a folder of images."""

import pytest

from implanting.datasets import read_dataset
from implanting.errors import DataError


@pytest.fixture
def mini(tmp_path, write_images):
    rows = {"train": [("a.png", "n02", 2), ("b.png", "n01", 1), ("c.png", "n02", 3), ("d.png", "n01", 4)]}
    rows["val"] = [("e.png", "n03", 5)]
    for split, lines in rows.items():
        table = "filename,label\n" + "".join(f"{name},{label}\n" for name, label, _ in lines)
        (tmp_path / f"{split}.csv").write_text(table)
        for name, _, level in lines:
            write_images(tmp_path / "images" / name, level=level)
    (tmp_path / "classes.csv").write_text("label,name\nn01,robin\n")
    return tmp_path


def test_images_come_class_by_class_in_the_order_of_the_file(mini):
    found = read_dataset(mini)
    assert (found.class_names, found.labels.tolist()) == (("n01", "n02"), [0, 0, 1, 1])
    assert found.images[:, 0, 0, 0].tolist() == [1, 4, 2, 3]
    assert found.name == f"{mini.name} train"


def test_images_beside_the_tables(mini):
    for path in (mini / "images").iterdir():
        path.rename(mini / path.name)
    (mini / "images").rmdir()
    assert len(read_dataset(mini, "val")) == 1


def test_only_the_split_that_is_read_needs_its_images(mini):
    (mini / "images" / "e.png").unlink()
    assert len(read_dataset(mini)) == 4
    with pytest.raises(DataError, match=r"1 of 1 listed images are missing, the first is .*e\.png"):
        read_dataset(mini, "val")


@pytest.mark.parametrize("name", ["a" * 5000 + ".png", "a\0b.png"])
def test_a_name_that_no_file_can_have_counts_as_missing(mini, name):
    (mini / "val.csv").write_text(f"filename,label\n{name},n09\n")
    with pytest.raises(DataError, match="1 of 1 listed images are missing"):
        read_dataset(mini, "val")


def test_split_that_is_not_there(mini):
    with pytest.raises(DataError, match="has no split 'test'; it has train, val"):
        read_dataset(mini, "test")


@pytest.mark.parametrize("split", ["train", "val"])
def test_shared_class_is_found_whichever_split_is_read(mini, split):
    (mini / "test.csv").write_text("filename,label\nz.png,n01\n")
    with pytest.raises(DataError, match="class 'n01' is in both train and test"):
        read_dataset(mini, split)


def test_other_columns(mini):
    (mini / "train.csv").write_text("path,class\na.png,n01\n")
    with pytest.raises(DataError, match=r"train\.csv has columns path, class; needed in its header: filename, label"):
        read_dataset(mini)


def test_empty_table(mini):
    (mini / "train.csv").write_text("filename,label\n")
    with pytest.raises(DataError, match="no images"):
        read_dataset(mini)
