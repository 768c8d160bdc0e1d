"""`implanting bench photos` as a user starts it."""

import json
from pathlib import Path

import pytest
from PIL import Image

from implanting.bench.photos import OURS
from implanting.cli.main import main
from toys import coloured

SHOTS = (1, 2)
METHODS = ["implanting", "logistic regression", "nearest neighbour", "prototypes"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four classes of four photos, one file that is none."""
    path, known = tmp_path_factory.mktemp("bench") / "colours", coloured(classes=4, per_class=4, size=32)
    for number, (image, label) in enumerate(zip(known.images, known.labels.tolist(), strict=True)):
        (path / f"class {label}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.numpy()).save(path / f"class {label}" / f"{number}.png")
    (path / "class 0" / "notes.txt").write_text("no photo")
    return path


def test_a_table_per_question(base_file: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--base", str(base_file), "--draws", "3", "--threads", "1"]
    assert main(["bench", "photos", str(folder), *flags]) == 0
    told = capsys.readouterr()
    assert "skipped 1 file" in told.err
    titles = ["colours, 4-way", "calibration error in %", "processor seconds to fit"]
    assert [title for title in titles if title not in told.out] == []
    assert all(told.out.count(method) >= 3 for method in METHODS)
    assert "implanting over logistic regression" in told.out
    assert "mean of 3 draws ± 95 % interval" in told.out


def test_a_document_for_programs(base_file: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--way", "3", "--images", "1", "2", "--queries", "2", "--draws", "2"]
    assert main(["bench", "photos", str(folder), "--base", str(base_file), *shape, "--json"]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    rows = document["results"]
    assert [(row["shot"], row["method"]) for row in rows] == [(shot, method) for shot in SHOTS for method in METHODS]
    for row in rows:
        assert (row["way"], row["tasks"]) == (3, 2)
        assert 0 <= row["calibration_error"] <= 1
        assert row["fit_seconds"] > 0
        assert row["predict_seconds"] > 0
        assert (row["gain"] == 0) or row["method"] != "logistic regression"
    ours = [row for row in rows if row["method"] == OURS]
    assert all(row["mean"] > 1 / 3 for row in ours)
    assert document["facts"]["classes"] == 4
    assert document["facts"]["embed_seconds"] > 0


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--way", "5"], "has 4 classes; --way 5 needs as many"),
        (["--images", "1", "4"], "has 4 photos; --images 4 needs one more to test on: ask for 3 or fewer"),
        (["--draws", "0"], "--draws is 0"),
        (["--base", "nowhere.safetensors"], "nowhere.safetensors"),
    ],
)
def test_mistakes_are_told_in_one_line(
    flags: list[str], complaint: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "photos", str(folder), *flags]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert complaint in last


def test_a_folder_is_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "photos", str(tmp_path / "none")]) == 2
    assert "missing" in capsys.readouterr().err
