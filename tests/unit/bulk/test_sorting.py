from pathlib import Path

import pytest

from implanting.bulk import SortedImages
from implanting.errors import ConfigError


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jpg").write_bytes(b"a photo")
    return tmp_path / "in" / "a.jpg"


def names_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_images_go_into_the_folders_of_their_classes(tmp_path, photo):
    out = tmp_path / "out"
    sorted_images = SortedImages(out, ["oak", "none of these"])
    sorted_images.place(photo, "oak", doubtful=False)
    sorted_images.place(photo, "none of these", doubtful=False)
    sorted_images.place(photo, "oak", doubtful=True)
    assert names_in(out) == ["doubtful/oak/a.jpg", "none of these/a.jpg", "oak/a.jpg"]
    assert photo.read_bytes() == (out / "oak" / "a.jpg").read_bytes()


def test_images_of_one_name_are_numbered_and_the_same_image_is_not_repeated(tmp_path, photo):
    other = tmp_path / "other" / "a.jpg"
    other.parent.mkdir()
    other.write_bytes(b"another photo")
    for _ in range(2):
        for source in (photo, other):
            SortedImages(tmp_path / "out", ["oak"]).place(source, "oak", doubtful=False)
    assert names_in(tmp_path / "out") == ["oak/a (2).jpg", "oak/a.jpg"]
    assert (tmp_path / "out" / "oak" / "a (2).jpg").read_bytes() == b"another photo"


def test_links_lead_to_the_image(tmp_path, photo):
    for _ in range(2):
        place = SortedImages(tmp_path / "out", ["oak"], link=True).place(photo, "oak", doubtful=False)
    assert place.is_symlink()
    assert place.samefile(photo)
    assert names_in(tmp_path / "out") == ["oak/a.jpg"]


def test_names_of_classes_become_names_of_folders_that_differ(tmp_path, photo):
    labels = ["a/b", "a:b", "..", "doubtful", "Oak", "oak", 7]
    sorted_images = SortedImages(tmp_path / "out", labels)
    places = [sorted_images.place(photo, label, doubtful=False).parent for label in labels]
    assert len({str(place).casefold() for place in places}) == len(labels)
    assert all(place.parent == tmp_path / "out" for place in places)
    assert sorted_images.place(photo, "oak", doubtful=True).parent.parent == tmp_path / "out" / "doubtful"


def test_a_folder_within_what_is_read_is_refused(tmp_path, photo):
    with pytest.raises(ConfigError, match="choose a folder outside"):
        SortedImages.outside(photo.parent / "sorted", [str(photo.parent)], ["oak"], link=False)
    with pytest.raises(ConfigError, match="is a file"):
        SortedImages.outside(photo, ["elsewhere"], ["oak"], link=False)


@pytest.mark.parametrize("link", [False, True])
def test_what_cannot_be_placed_names_the_setting(tmp_path, photo, link):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "oak").write_bytes(b"a file")
    sorted_images = SortedImages.outside(tmp_path / "out", ["elsewhere"], ["oak", "a" * 300], link)
    for label in ("oak", "a" * 300):
        with pytest.raises(ConfigError, match=r"`sort_into` .*out: image .*a\.jpg cannot be placed there"):
            sorted_images.place(photo, label, doubtful=False)
    assert (tmp_path / "out" / "oak").read_bytes() == b"a file"


def test_a_folder_that_cannot_be_made_is_refused_at_once(tmp_path, photo):
    with pytest.raises(ConfigError, match=r"`sort_into` .*a\.jpg is a file or read-only"):
        SortedImages.outside(photo / "sorted", ["elsewhere"], ["oak"], link=False)
