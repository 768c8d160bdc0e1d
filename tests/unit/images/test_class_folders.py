"""One sub-folder per class."""

import pytest
from PIL import Image

from implanting.errors import DataError
from implanting.images import list_class_folders


@pytest.fixture
def trees(tmp_path):
    for name in ("oak/b.JPG", "oak/a.png", "oak/more/c.png", "birch/d.png"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (2, 2)).save(path)
    for name in ("oak/notes.txt", "oak/.hidden.png", ".cache/e.png", "__MACOSX/oak/._a.png", "readme.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path


def test_sorted_nested_and_counted(trees):
    classes, skipped = list_class_folders(trees)
    assert list(classes) == ["birch", "oak"]
    assert [path.name for path in classes["oak"]] == ["a.png", "b.JPG", "c.png"]
    assert skipped == 1


def test_empty_class_folder_is_named(trees):
    (trees / "elm").mkdir()
    (trees / "elm" / "notes.txt").write_text("")
    with pytest.raises(DataError, match=r"elm holds no image \(1 other files\)"):
        list_class_folders(trees)


def test_what_is_no_folder_of_class_folders(trees):
    for path, found in (
        (trees / "none", "missing"),
        (trees / "readme.md", "a file"),
        (trees / "birch", "no sub-folders"),
    ):
        with pytest.raises(DataError, match=found):
            list_class_folders(path)


def test_links_are_followed_but_not_in_circles(trees, tmp_path):
    (trees / "oak" / "again").symlink_to(trees / "oak")
    (trees / "oak" / "all").symlink_to(trees)
    (trees / "oak" / "birches").symlink_to(trees / "birch")
    (trees / "oak" / "z.png").symlink_to(trees / "birch" / "d.png")
    classes, _ = list_class_folders(trees)
    assert [str(path.relative_to(trees / "oak")) for path in classes["oak"]] == [
        "a.png", "b.JPG", "birches/d.png", "more/c.png", "z.png",
    ]  # fmt: skip


def test_a_class_of_dots_alone_is_refused_with_the_reason(tmp_path):
    for name in ("oak", "..."):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"\.\.\. has a name of dots only, .*hidden"):
        list_class_folders(tmp_path)
