"""`implanting score` as a user runs it: folders that are no class, images that were fitted to, rows and a report."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from implanting.classifier.estimator import FewShotClassifier
from implanting.cli import main
from implanting.images import read_folder
from toy_report import Page
from toys import coloured

SHADES = coloured(classes=3, per_class=8, size=32, seed=1, prefix="shade")
NAMES = ("Ash", "élm", "oak")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for number, name in enumerate(NAMES):
        for at, image in enumerate(SHADES.images[number == SHADES.labels].numpy()):
            place = folder / ("known" if at < 4 else "asked") / name
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(place / f"{at}.png")
    return folder


@pytest.fixture(scope="module")
def trees(photos: Path, base_file: Path) -> Path:
    out = photos / "trees.safetensors"
    FewShotClassifier(base_file, implants=False).fit(*read_folder(photos / "known")).save(out)
    return out


def score(*arguments: object) -> int:
    return main(["score", *map(str, arguments)])


def test_a_folder_that_is_no_class_is_named_with_the_nearest_class(trees, photos, tmp_path, capsys):
    labelled = Path(shutil.copytree(photos / "asked", tmp_path / "labelled"))
    (labelled / "Ash").rename(labelled / "ash tree")
    (labelled / "oak").rename(labelled / "zzz")
    assert score(trees, labelled) == 0
    said = capsys.readouterr()
    folder = (
        "folder 'ash tree' is not a class, so its 4 images count as none of these, which this classifier never answers"
    )
    assert folder in said.err
    assert "folder 'zzz' is not a class" in said.err
    assert "none of these" in said.out
    (labelled / "ash tree").rename(labelled / "ash")
    assert score(trees, labelled, "--json") == 0
    said = capsys.readouterr()
    assert "the nearest class is 'Ash': rename the folder if that is meant" in said.err
    assert len(json.loads(said.out)["remarks"]) == 2


def test_images_that_were_fitted_to_are_told(trees, photos, tmp_path, capsys):
    assert score(trees, photos / "asked") == 0
    assert "fitted to" not in capsys.readouterr().err
    mixed = Path(shutil.copytree(photos / "asked", tmp_path / "mixed"))
    shutil.copy(photos / "known" / "oak" / "0.png", mixed / "oak" / "again.png")
    report = tmp_path / "report.html"
    assert score(trees, mixed, "--report", report, "--shown", "2") == 0
    told = "1 of 13 images are among those that the classifier was fitted to"
    assert told in capsys.readouterr().err
    assert told in "".join(Page(report.read_text()).text)
    added = FewShotClassifier.load(trees).add_images([mixed / "oak" / "5.png"], ["oak"])
    added.save(tmp_path / "more.safetensors")
    assert score(tmp_path / "more.safetensors", mixed, "--json") == 0
    assert "2 of 13 images" in capsys.readouterr().err


def test_a_row_per_image(trees, photos, tmp_path, capsys):
    out = tmp_path / "answers.csv"
    assert score(trees, photos / "asked", "--answers", out) == 0
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert {row["true_class"] for row in rows} == set(NAMES)
    classifier = FewShotClassifier.load(trees)
    assert [row["class"] for row in rows] == classifier.predict([row["image"] for row in rows]).tolist()
    assert all((row["right"] == "true") == (row["class"] == row["true_class"]) for row in rows)
    assert str(out) in capsys.readouterr().out.replace("\n", "")
    assert score(trees, photos / "asked", "--answers", tmp_path / "gone" / "a.csv") == 2
    assert "--answers" in capsys.readouterr().err


def test_the_rows_count_folders_of_strangers_as_the_table_does(trees, photos, tmp_path, capsys):
    refusing = FewShotClassifier.load(trees)
    refusing.unknown, refusing.refuse = "no tree", 0.9
    refusing.save(tmp_path / "refusing.safetensors")
    labelled = Path(shutil.copytree(photos / "asked", tmp_path / "labelled"))
    (labelled / "oak").rename(labelled / "pebbles")
    out = tmp_path / "answers.csv"
    assert score(tmp_path / "refusing.safetensors", labelled, "--answers", out, "--json") == 0
    counted = {row["class"]: row["mean"] for row in json.loads(capsys.readouterr().out)["classes"]}
    with out.open(encoding="utf-8", newline="") as file:
        strangers = [row for row in csv.DictReader(file) if row["true_class"] == "pebbles"]
    refused = [row["class"] == "no tree" for row in strangers]
    assert any(refused)
    assert [row["right"] == "true" for row in strangers] == refused
    assert counted["none of these"] == sum(refused) / len(refused)
