"""What `read_dataset` says when there is nothing to read."""

import pytest

from implanting.datasets import read_dataset
from implanting.errors import DataError


def test_missing_path(tmp_path):
    with pytest.raises(DataError, match=rf"{tmp_path}/none does not exist"):
        read_dataset(tmp_path / "none")


@pytest.mark.parametrize("file", ["notes.txt", "photo.jpg", None])
def test_nothing_recognised(tmp_path, file):
    (tmp_path / "inner").mkdir()
    if file:
        (tmp_path / file).write_text("hello")
    for path in (tmp_path, tmp_path / file if file else tmp_path / "inner"):
        with pytest.raises(
            DataError, match=r"no known format; looked for: cifar-100-python.*FC100.*train.csv.*folders"
        ):
            read_dataset(path)


def test_unknown_split(tmp_path):
    with pytest.raises(DataError, match="unknown split 'trian': choose one of train, val, test"):
        read_dataset(tmp_path, "trian")


def test_other_words_for_val(tmp_path, write_images):
    write_images(tmp_path / "validation" / "oak" / "0.png", tmp_path / "train" / "elm" / "0.png")
    for split in ("val", "valid", "validation"):
        assert read_dataset(tmp_path, split).class_names == ("oak",)
