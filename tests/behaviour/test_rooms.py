"""The house: rooms in the order of the story, which is the order of imports, entered by their doors only."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "implanting"
ROOMS = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def tree() -> list[str]:
    """The rooms and files of the README's list, in its order."""
    listed = (ROOT / "README.md").read_text().split("src/implanting/\n")[1].split("    tests/")[0]
    return re.findall(r"^ {6}(\w+)(?:\.py|/) ", listed, re.MULTILINE)


def imported(code: ast.AST) -> Iterator[list[str]]:
    """What of ours a file imports anywhere, but for types alone: room, then module of the room where one is named."""
    for part in ast.iter_child_nodes(code):
        if isinstance(part, ast.If) and isinstance(part.test, ast.Name) and part.test.id == "TYPE_CHECKING":
            continue
        if isinstance(part, ast.ImportFrom) and part.module and part.module.startswith("implanting."):
            yield part.module.split(".")[1:]
        yield from imported(part)


def imports_of(file: Path) -> tuple[str, list[list[str]]]:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py"), list(imported(ast.parse(file.read_text())))


FILES = sorted(file for file in SOURCE.rglob("*.py") if file.parent != SOURCE or not file.name.startswith("__"))


def test_the_readme_lists_every_room_and_every_file_at_the_top() -> None:
    found = {path.stem for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert found - {"__init__", "__main__", "__pycache__"} == set(tree())
    assert len(tree()) == len(set(tree())) > 15


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_room_imports_only_from_rooms_above_it_and_through_their_doors(file: Path) -> None:
    place = {name: number for number, name in enumerate(tree())}
    own, imports = imports_of(file)
    for room, *inside in imports:
        assert place[room] <= place[own], f"{room} stands below {own}"
        assert room == own or not inside, f"{'.'.join([room, *inside])} is the inside of another room"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_it_is_and_what_it_offers(room: str) -> None:
    door = import_module(f"implanting.{room}")
    assert door.__doc__
    assert all(hasattr(door, name) for name in door.__all__)


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_room_offers_is_asked_for_by_another_or_is_public(room: str) -> None:
    """A name that only its own room uses is no part of its surface."""
    asked = {name for file in [*FILES, SOURCE / "__main__.py"] for name in names_asked(file, room)}
    public = set(import_module("implanting").__all__)
    assert set(import_module(f"implanting.{room}").__all__) <= asked | public


def names_asked(file: Path, room: str) -> Iterator[str]:
    if file.relative_to(SOURCE).parts[0] == room:
        return
    for part in ast.walk(ast.parse(file.read_text())):
        if isinstance(part, ast.ImportFrom) and part.module == f"implanting.{room}":
            yield from (name.name for name in part.names)


@pytest.mark.parametrize("test", sorted((ROOT / "tests" / "unit").rglob("test_*.py")), ids=lambda test: test.stem)
def test_unit_tests_stand_where_their_subject_stands(test: Path) -> None:
    place = test.relative_to(ROOT / "tests" / "unit").parts[0]
    assert place.removeprefix("test_").removesuffix(".py") in tree()
