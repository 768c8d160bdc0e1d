"""The README's own commands and code, run in order in a folder where data/FC100 is a small data set."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from commands import implanting, write_fc100

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_readme_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data" / "FC100"
    folder.mkdir(parents=True)
    write_fc100(folder, images=42)
    (folder / "FC100_val.pickle").rename(folder / "FC100_test.pickle")
    monkeypatch.chdir(tmp_path)
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(commands) == 3
    printed = [implanting(sys.executable, "-m", *shlex.split(line)).stdout for line in commands]
    assert "200 tasks" in printed[1]
    assert "implants" in printed[1]
    assert "5: 0, 1, 2, 3, 4" in printed[2]
    (program,) = blocks("python")
    assert re.fullmatch(r"[01]\.\d{4} ± 0\.\d{4} over 100 tasks\n", implanting(sys.executable, "-c", program).stdout)


def test_the_file_tree_names_every_module() -> None:
    source = README.parent / "src" / "implanting"
    tree = README.read_text().split("## The files")[1]
    named = set(re.findall(r"(\w+(?:\.py|/))", tree))
    modules = {path.name if path.is_file() else f"{path.name}/" for path in source.iterdir()}
    private = {"__init__.py", "__main__.py", "__pycache__/", "py.typed"}
    assert {name for name in modules if name not in private} <= named
