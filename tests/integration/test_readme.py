"""The README's own commands and code, run in order in a folder with a few photos and a small data/FC100."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from skimage import data
from sklearn.datasets import load_sample_image

from commands import implanting, write_fc100

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def lines(block: str) -> list[list[str]]:
    return [shlex.split(line) for line in block.splitlines()]


def write_photos(folder: Path) -> None:
    """Crops of photographs that come with scikit-image and scikit-learn, three classes and a fourth to be added."""
    sources = {
        "oak": data.cat(),
        "birch": data.coffee(),
        "ash": load_sample_image("flower.jpg"),
        "elm": data.astronaut(),
    }
    generator = np.random.default_rng(0)
    for name, picture in sources.items():
        height, width = picture.shape[:2]
        for number in range(1, 9):
            top, left = (int(generator.integers(0, side // 3)) for side in (height, width))
            crop = Image.fromarray(picture[top : top + 2 * height // 3, left : left + 2 * width // 3])
            place = folder / "photos" / ("support" if number < 5 else "labelled") / name
            place = folder / "elm-photos" if name == "elm" else place
            place.mkdir(parents=True, exist_ok=True)
            crop.resize((300, 240)).save(place / f"{number}.jpg")
    for name, source in (("a.jpg", "birch/5.jpg"), ("b.jpg", "oak/5.jpg")):
        shutil.copy(folder / "photos" / "labelled" / source, folder / name)


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


def test_the_file_tree_names_every_module() -> None:
    source = README.parent / "src" / "implanting"
    tree = README.read_text().split("## The files")[1]
    named = set(re.findall(r"(\w+(?:\.py|/))", tree))
    modules = {path.name if path.is_file() else f"{path.name}/" for path in source.iterdir()}
    private = {"__init__.py", "__main__.py", "__pycache__/", "py.typed"}
    assert {name for name in modules if name not in private} <= named
