"""One sub-folder a class."""

import pytest
from PIL import Image

from implanting.errors import DataError
from implanting.images import list_class_folders, read_folder


@pytest.fixture
def trees(tmp_path):
    for name in ("oak/b.JPG", "oak/a.png", "oak/more/c.png", "birch/d.png"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (2, 2)).save(path)
    for name in ("oak/notes.txt", "oak/.hidden.png", ".cache/e.png", "readme.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    return tmp_path


def test_sorted_nested_and_counted(trees):
    classes, skipped = list_class_folders(trees)
    assert list(classes) == ["birch", "oak"]
    assert [path.name for path in classes["oak"]] == ["a.png", "b.JPG", "c.png"]
    assert skipped == 1


def test_read_folder(trees):
    paths, labels = read_folder(str(trees))
    assert [path.name for path in paths] == ["d.png", "a.png", "b.JPG", "c.png"]
    assert labels == ["birch", "oak", "oak", "oak"]


def test_empty_class_folder_is_named(trees):
    (trees / "elm").mkdir()
    (trees / "elm" / "notes.txt").write_text("")
    with pytest.raises(DataError, match=r"elm holds no image \(1 other files\)"):
        read_folder(trees)


def test_what_is_no_folder_of_class_folders(trees):
    for path, found in (
        (trees / "none", "missing"),
        (trees / "readme.md", "a file"),
        (trees / "birch", "no sub-folders"),
    ):
        with pytest.raises(DataError, match=found):
            read_folder(path)
