"""What a command line may name: files, folders, patterns, paths on standard input."""

import glob
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from implanting.errors import DataError
from implanting.images import find_images

NAMES = (
    "a.JPG",
    "b c.png",
    "d\u00e9j\u00e0 [1].png",
    "in/e.webp",
    "in/deeper/f.png",
    "in/notes.txt",
    "in/.hidden.png",
    "strange",
)


SUFFIXES = (".JPG", ".png", ".webp")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (["a.JPG"], ["a.JPG"]),
        (["b c.png", "a.JPG"], ["b c.png", "a.JPG"]),
        (["strange"], ["strange"]),
        (["d\u00e9j\u00e0 [1].png"], ["d\u00e9j\u00e0 [1].png"]),
        (["in"], ["in/deeper/f.png", "in/e.webp"]),
        (["*.png"], ["b c.png", "d\u00e9j\u00e0 [1].png"]),
        (["**/*.png"], ["b c.png", "d\u00e9j\u00e0 [1].png", "in/deeper/f.png"]),
        (["i*"], ["in/deeper/f.png", "in/e.webp"]),
        (["[ab]*"], ["a.JPG", "b c.png"]),
        (["in/e.webp", "in", "in/e.webp"], ["in/e.webp", "in/deeper/f.png"]),
    ],
)
def test_inputs(folder, inputs, expected):
    assert [str(path) for path in find_images(inputs)] == expected
    absolute = [str(folder / name) for name in inputs]
    assert find_images(absolute) == [folder / name for name in expected]


def test_an_empty_name_is_not_the_current_folder(folder):
    assert len(find_images(["."])) > 1
    with pytest.raises(DataError, match="an empty name is no image"):
        find_images(["a.JPG", ""])


@pytest.mark.parametrize("text", ["a.JPG\nb c.png\n\n", "a.JPG\r\nb c.png\r\n", "a.JPG\0b c.png\0"])
def test_standard_input(folder, monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    assert [str(path) for path in find_images(["in/e.webp", "-"])] == ["in/e.webp", "a.JPG", "b c.png"]


def test_standard_input_with_names_that_are_no_text(folder, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"caf\xe9.png\n")))
    (path,) = find_images(["-"], skip_bad=True)
    assert bytes(path) == b"caf\xe9.png"


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ([], "nothing was named"),
        (["gone.jpg"], "gone.jpg does not exist"),
        (["*.gif"], r"the pattern \*\.gif matches no image"),
        (["empty"], "empty holds no image"),
        (["-"], "no image found"),
    ],
)
def test_nothing_found_is_told(folder, monkeypatch, inputs, said):
    (folder / "empty").mkdir()
    (folder / "empty" / "notes.txt").write_text("")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\n")))
    with pytest.raises(DataError, match=said):
        find_images(inputs)


def test_a_missing_file_among_others_is_left_to_be_reported(folder):
    assert [str(path) for path in find_images(["a.JPG", "gone.jpg"], skip_bad=True)] == ["a.JPG", "gone.jpg"]


def test_links_that_lead_in_a_circle_end(folder):
    """Each folder is entered once; `glob` would follow such links through every order of them."""
    for number in range(12):
        (folder / "in" / str(number)).mkdir()
    for number in range(12):
        for other in range(12):
            (folder / "in" / str(number) / f"to{other}").symlink_to(folder / "in" / str(other))
    (folder / "in" / "up").symlink_to("..")
    (folder / "in" / "0" / "g.png").write_bytes(b"")
    for pattern in ("in/**/*.png", "in", "in/**"):
        found = {path.name for path in find_images([pattern])}
        assert found >= {"f.png", "g.png"}
    assert [path.name for path in find_images(["in/**/g.png"])] == ["g.png"]


def test_patterns_are_those_of_glob(folder):
    for pattern in ("in/**/*", "**", "i?/*.webp", "in/.h*", "*/*/*.png", "in/**/deeper/*", "./*.png", "**/**/*.png"):
        matched = glob.glob(pattern, recursive=True)  # noqa: PTH207 (the twin)
        expected = {Path(name) for name in matched if Path(name).suffix in SUFFIXES}
        assert {path for path in find_images([pattern]) if path.match(pattern) or "**" in pattern} == expected, pattern
