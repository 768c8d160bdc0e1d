"""The README's own commands and code, run in order in a folder with a few photos and a small data/FC100."""

import ast
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import implanting, write_fc100
from toy_photos import write_photos

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def lines(block: str) -> list[list[str]]:
    return [shlex.split(line) for line in block.splitlines()]


def test_the_part_on_photos_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_photos(tmp_path)
    monkeypatch.chdir(tmp_path)
    printed = [implanting(sys.executable, "-m", *line).stdout for line in lines(blocks("sh")[0])]
    assert len(printed) == 5
    assert "birch" in next(line for line in printed[1].splitlines() if "a.jpg" in line)
    assert "all" in printed[3]
    assert "elm" in printed[4]
    assert "oak" not in printed[4]
    assert Path("report.html").read_text().startswith("<!doctype html>")
    answers = implanting(sys.executable, "-c", blocks("python")[0]).stdout
    assert answers.startswith("['birch' 'oak'] [[")
    assert Path("a-heat.png").stat().st_size > 10_000


def test_the_part_on_research_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data" / "FC100"
    folder.mkdir(parents=True)
    write_fc100(folder, images=42, trained=14)  # a step an epoch
    (folder / "FC100_val.pickle").rename(folder / "FC100_test.pickle")
    monkeypatch.chdir(tmp_path)
    printed = [implanting(sys.executable, "-m", *line).stdout for line in lines(blocks("sh")[1])]
    assert len(printed) == 3
    assert "20 tasks" in printed[1]
    assert "implants" in printed[1]
    assert "5: 0, 1, 2, 3, 4" in printed[2]
    program = blocks("python")[1]
    assert re.fullmatch(r"[01]\.\d{4} ± 0\.\d{4} over 100 tasks\n", implanting(sys.executable, "-c", program).stdout)


SOURCE = README.parent / "src" / "implanting"


def file_tree() -> list[list[str]]:
    """The modules and packages of each line of the README's tree."""
    tree = README.read_text().split("src/implanting/\n")[1].split("    tests/")[0]
    lines = re.findall(r"^ {6}(\w+(?:\.py|/)(?:, \w+(?:\.py|/))*) ", tree, re.MULTILINE)
    return [re.findall(r"\w+(?=\.py|/)", line) for line in lines]


def modules_imported(code: ast.AST) -> Iterator[str]:
    """The modules and packages of ours that a file imports anywhere, but for types alone."""
    for part in ast.iter_child_nodes(code):
        if isinstance(part, ast.If) and isinstance(part.test, ast.Name) and part.test.id == "TYPE_CHECKING":
            continue
        if isinstance(part, ast.ImportFrom) and part.module and part.module.startswith("implanting."):
            yield part.module.split(".")[1]
        yield from modules_imported(part)


def test_the_file_tree_names_every_module() -> None:
    modules = {path.stem for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert modules - {"__init__", "__main__", "__pycache__"} == {name for line in file_tree() for name in line}


def test_a_module_imports_only_from_those_above_it_in_the_tree() -> None:
    line_of = {name: number for number, line in enumerate(file_tree()) for name in line}
    assert len(line_of) > 40
    for file in SOURCE.rglob("[!_]*.py"):
        own = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        below = [name for name in modules_imported(ast.parse(file.read_text())) if line_of[name] > line_of[own]]
        assert not below, f"{file.name} imports {below}"
