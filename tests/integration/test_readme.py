"""The README's own commands and code, run in order in a folder with a few photos and a small data/FC100."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from commands import implanting, write_fc100
from toy_photos import write_photos

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def lines(block: str) -> list[list[str]]:
    return [shlex.split(line) for line in block.splitlines()]


def write_flowers(folder: Path) -> None:
    """The toy photos under the names of the page."""
    write_photos(folder)
    for toy, flower in {"birch": "primula", "oak": "rose", "ash": "snapdragon"}.items():
        for part in ("support", "labelled"):
            (folder / "photos" / part / toy).rename(folder / "photos" / part / flower)
    (folder / "elm-photos").rename(folder / "sunflower-photos")


def test_the_part_on_photos_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_flowers(tmp_path)
    monkeypatch.chdir(tmp_path)
    printed = [implanting(sys.executable, "-m", *line).stdout for line in lines(blocks("sh")[0])]
    assert len(printed) == 5
    assert "primula" in next(line for line in printed[1].splitlines() if "a.jpg" in line)
    assert "all" in printed[3]
    assert "sunflower" in printed[4]
    assert "rose" not in printed[4]
    assert Path("report.html").read_text().startswith("<!doctype html>")
    answers = implanting(sys.executable, "-c", blocks("python")[0]).stdout
    assert re.match(
        r"\['primula' '(rose|none of these)'\] \[\[", answers
    )  # crops of one photo are unlike real supports
    assert Path("a-heat.png").stat().st_size > 10_000


def test_the_part_on_research_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data" / "FC100"
    folder.mkdir(parents=True)
    write_fc100(folder, images=42, trained=14)  # one step per epoch
    monkeypatch.chdir(tmp_path)
    printed = [implanting(sys.executable, "-m", *line).stdout for line in lines(blocks("sh")[1])]
    assert len(printed) == 3
    assert "20 tasks" in printed[0]
    assert "gain, paired" in printed[0]
    assert "5: 0, 1, 2, 3, 4" in printed[2]
    program = blocks("python")[1]
    assert re.fullmatch(r"[01]\.\d{4} ± 0\.\d{4} over 100 tasks\n", implanting(sys.executable, "-c", program).stdout)
