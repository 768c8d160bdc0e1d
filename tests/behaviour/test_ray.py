"""Ray Data with two actors on this machine: the answers of `predict`, bad files as rows, an actor that is killed."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

from commands import implanting
from implanting.bulk import read_images
from implanting.classifier.estimator import FewShotClassifier
from implanting.cli import main
from implanting.errors import CheckpointError, MissingExtra
from implanting.ray import classify
from toys import coloured

SHADES = coloured(classes=3, per_class=8, size=32, seed=1, prefix="shade")
IMAGES = 160
ROOT = Path(__file__).parents[2]


@pytest.fixture
def trees(base_file: Path, tmp_path: Path) -> Path:
    labels = [f"class {label}" for label in SHADES.labels.tolist()]
    FewShotClassifier(base_file, implants=False).fit(SHADES.images.numpy(), labels).save(tmp_path / "t.safetensors")
    return tmp_path / "t.safetensors"


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """Large images, so that an actor can be killed amid the work; most are one file by other names, one is damaged."""
    album = tmp_path / "album"
    album.mkdir()
    for number in range(6):
        picture = Image.fromarray(SHADES.images[number].numpy()).resize((900, 900), Image.Resampling.BICUBIC)
        picture.save(album / f"{number:03}.png")
    for number in range(6, IMAGES):
        os.link(album / f"{number % 6:03}.png", album / f"{number:03}.png")
    (album / "bad.png").write_bytes((album / "000.png").read_bytes()[:500])
    return album


def test_actors_answer_as_predict_does_and_a_killed_one_loses_and_doubles_nothing(trees, album, capsys, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.chdir(album.parent)
    album.rename("archive")
    album = Path("archive")
    shutil.copy(trees, "trees.safetensors")
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "bulk.md").read_text(), re.DOTALL)
    session = str(ROOT / "tests" / "ray_session.py")
    printed = implanting(sys.executable, session, str(trees), str(album), program.replace("actors=2", "actors=1"))
    written = [image for file in Path("answers").glob("*.parquet") for image in read_images(file)]
    assert len(written) == len(set(written)) == IMAGES + 1
    (found,) = (json.loads(line) for line in printed.stdout.splitlines() if line.startswith('{"rows"'))
    assert found["killed"] > 1
    assert len(found["rows"]) == len({row["image"] for row in found["rows"]}) == IMAGES + 1
    assert main(["predict", str(trees), str(album), "--jsonl"]) == 0
    expected = {row["image"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    for row in found["rows"]:
        alike = expected[row["image"]]
        assert (row["class"], row["error"]) == (alike["class"], alike["error"])
        if row["error"] is None:
            assert row["likeliest_probability"] == pytest.approx(alike["likeliest_probability"], abs=1e-5)
    assert [Path(row["image"]).name for row in found["rows"] if row["error"]] == ["bad.png"]
    good, bad = sorted(found["bytes"], key=lambda row: row["image"])
    assert good["class"] == expected[good["image"]]["class"]
    assert "500 bytes" in bad["error"]


def test_a_classifier_that_is_none_is_refused_before_an_actor_starts(tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(CheckpointError, match=r"no classifier at .*none\.safetensors"):
        classify(tmp_path, tmp_path / "none.safetensors")


def test_ray_that_is_not_installed_is_told(trees, album, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(MissingExtra, match=r"Ray is not installed: pip install 'implanting\[ray\]'"):
        classify(album, trees)
