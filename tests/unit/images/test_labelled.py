"""A folder of class folders, with what is in it told."""

import shutil

import pytest
from PIL import Image

from implanting.errors import DataError, DataWarning
from implanting.images import folders, inspect_folder, read_folder


@pytest.fixture
def trees(tmp_path):
    for level, name in enumerate(("birch/a.png", "birch/b.JPEG", "oak/c.png", "oak/d.png")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4), (level, 0, 0)).save(path)
    return tmp_path


def test_paths_and_labels(trees):
    paths, labels = read_folder(str(trees))
    assert [path.name for path in paths] == ["a.png", "b.JPEG", "c.png", "d.png"]
    assert labels == ["birch", "birch", "oak", "oak"]
    assert inspect_folder(trees).remarks() == []


def test_other_files_are_skipped_and_told(trees):
    (trees / "oak" / "notes.txt").write_text("")
    with pytest.warns(DataWarning, match=r"skipped 1 file without an image's extension \(1 \.txt\)$"):
        paths, _ = read_folder(trees)
    assert len(paths) == 4
    assert inspect_folder(trees).skipped == {".txt": 1}
    (trees / "oak" / "leaf.MOV").write_text("")
    (remark,) = inspect_folder(trees).remarks()
    assert remark.endswith("(1 .mov, 1 .txt); videos are not read: save their frames as images first")


def test_images_beside_the_class_folders_are_told(trees):
    Image.new("RGB", (4, 4)).save(trees / "lost.png")
    found = inspect_folder(trees)
    assert len(found.paths) == 4
    assert found.remarks() == [
        "left out 1 image, such as lost.png, in no class folder: move each into the folder of its class"
    ]


def test_bad_images_are_left_out_only_if_asked(trees):
    (trees / "oak" / "c.png").write_bytes(b"no image")
    assert len(inspect_folder(trees).paths) == 4
    found = inspect_folder(trees, skip_bad=True)
    assert [path.name for path in found.paths] == ["a.png", "b.JPEG", "d.png"]
    assert found.labels == ["birch", "birch", "oak"]
    (failure,) = found.bad
    assert failure.source == trees / "oak" / "c.png"
    with pytest.warns(DataWarning, match=r"left out: image .*c\.png is not an image"):
        read_folder(trees, skip_bad=True)


def test_a_truncated_jpeg_does_not_pass_for_good(trees):
    Image.effect_noise((640, 640), 50).save(trees / "oak" / "e.jpg")
    content = (trees / "oak" / "e.jpg").read_bytes()
    (trees / "oak" / "e.jpg").write_bytes(content[: len(content) * 9 // 10])
    assert [failure.source.name for failure in inspect_folder(trees, skip_bad=True).bad] == ["e.jpg"]


def test_a_class_without_a_good_image_is_an_error(trees):
    for name in ("c.png", "d.png"):
        (trees / "oak" / name).write_bytes(b"no image")
    with pytest.raises(DataError, match=r"none of the 2 images of class 'oak' decodes, such as: .*c\.png"):
        inspect_folder(trees, skip_bad=True)


def test_the_bad_image_that_is_named_is_of_that_class(trees):
    for name in ("birch/a.png", "oak/c.png", "oak/d.png"):
        (trees / name).write_bytes(b"no image")
    with pytest.raises(DataError, match=r"of class 'oak' decodes, such as: .*c\.png"):
        inspect_folder(trees, skip_bad=True)


def test_copies_in_two_classes_are_told(trees):
    shutil.copy(trees / "oak" / "c.png", trees / "birch" / "copy.png")
    (trees / "birch" / "link.png").symlink_to(trees / "oak" / "d.png")
    copies = inspect_folder(trees).copies
    assert [[str(path.relative_to(trees)) for path in group] for group in copies] == [
        ["birch/copy.png", "oak/c.png"],
        ["birch/link.png", "oak/d.png"],
    ]
    with pytest.warns(DataWarning, match=r"two classes, .*copy\.png = .*c\.png; .*link\.png = .*d\.png"):
        read_folder(trees)


def test_copies_within_a_class_and_other_images_of_equal_length_are_fine(trees):
    shutil.copy(trees / "oak" / "c.png", trees / "oak" / "copy.png")
    for level, name in enumerate(("oak", "birch")):
        Image.new("L", (4, 4), level).save(trees / name / "e.bmp")
    assert len({(trees / name / "e.bmp").stat().st_size for name in ("oak", "birch")}) == 1
    assert inspect_folder(trees).copies == []


def test_only_files_of_equal_length_are_read(trees, monkeypatch):
    def refuse(path):
        raise AssertionError(path)

    for number, path in enumerate(sorted(trees.rglob("*.*"))):
        path.write_bytes(b"x" * number)
    monkeypatch.setattr(folders, "_digest", refuse)
    assert inspect_folder(trees).copies == []


def test_a_broken_link_is_a_bad_image(trees):
    (trees / "oak" / "e.png").symlink_to(trees / "gone.png")
    assert inspect_folder(trees).copies == []
    (failure,) = inspect_folder(trees, skip_bad=True).bad
    assert "e.png does not exist" in failure.reason


def test_long_lists_are_cut(trees):
    for number in range(7):
        (trees / "oak" / f"bad{number}.png").write_bytes(b"no image")
    (remark,) = inspect_folder(trees, skip_bad=True).remarks()
    assert "bad4.png" in remark
    assert remark.endswith("; and 2 more")
