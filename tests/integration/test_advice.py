"""`implanting check` and `suggest` as a user runs them, and what `fit` says of its photos."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from implanting.classifier.estimator import FewShotClassifier
from implanting.cli import main
from implanting.images import read_folder
from toys import coloured

SHADES = coloured(classes=3, per_class=10, size=32, seed=1, prefix="shade")
NAMES = ("ash", "elm", "oak")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three classes of six photos, of which one elm lies among the oaks; the others are not labelled."""
    for number, name in enumerate(NAMES):
        for at, image in enumerate(SHADES.images[number == SHADES.labels].numpy()):
            place = tmp_path / "photos" / name if at < 6 else tmp_path / "unlabelled"
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(place / f"{name} {at}.png")
    (tmp_path / "photos" / "elm" / "elm 0.png").rename(tmp_path / "photos" / "oak" / "elm 0.png")
    return tmp_path / "photos"


def error_of(said: pytest.CaptureFixture[str]) -> str:
    captured = said.readouterr()
    (line,) = (line for line in captured.err.splitlines() if line.startswith("implanting: "))
    assert captured.out == ""
    return line


def test_a_wrong_label_and_the_accuracy_are_found_in_a_folder_and_in_a_file(photos, base_file, tmp_path, capsys):
    check = ["check", "--base", str(base_file)]
    assert main([*check, str(photos), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [Path(one["image"]).name for one in document["mislabelled"]] == ["elm 0.png"]
    assert (document["mislabelled"][0]["class"], document["mislabelled"][0]["looks_like"]) == ("oak", "elm")
    assert document["expected"]["images"] == 18
    assert document["expected"]["low"] < document["expected"]["mean"] < 1
    assert main([*check, str(photos)]) == 0
    shown = capsys.readouterr().out
    assert "accuracy to expect:" in shown
    assert "photos that look mislabelled" in shown
    assert "copies of one image: none" in shown
    kept = tmp_path / "kept.safetensors"
    FewShotClassifier(base_file, implants=False, keep_supports=True).fit(*read_folder(photos)).save(kept)
    assert main(["check", str(kept), "--json"]) == 0
    (wrong,) = json.loads(capsys.readouterr().out)["mislabelled"]
    assert wrong["image"] == "oak, example 1"


def test_fit_says_what_to_expect_and_what_is_doubtful(photos, base_file, tmp_path, capsys):
    out = tmp_path / "trees.safetensors"
    assert main(["fit", str(photos), "--base", str(base_file), "--implants", "False", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "accuracy to expect: " in shown
    assert "18 images); each photo was classified by a classifier that was fitted without it" in shown
    assert "elm 0.png" in shown
    assert FewShotClassifier.load(out).supports_ is None


def test_photos_to_label_next(photos, base_file, tmp_path, capsys):
    out = tmp_path / "trees.safetensors"
    FewShotClassifier(base_file, implants=False).fit(*read_folder(photos)).save(out)
    (tmp_path / "unlabelled" / "bad.png").write_bytes(b"no image")
    assert main(["suggest", str(out), str(tmp_path / "unlabelled"), "--count", "3", "--json"]) == 0
    said = capsys.readouterr()
    assert "bad.png" in said.err
    document = json.loads(said.out)
    assert (len(document["results"]), document["images"]) == (3, 13)
    assert len({one["image"] for one in document["results"]}) == 3
    assert main(["suggest", str(out), str(tmp_path / "unlabelled")]) == 0
    assert "12 of 12 photos" in capsys.readouterr().out


def test_what_cannot_be_checked_or_suggested_is_told(photos, base_file, tmp_path, capsys):
    out = tmp_path / "trees.safetensors"
    FewShotClassifier(base_file, implants=False).fit(*read_folder(photos)).save(out)
    assert main(["check", str(out)]) == 0
    assert "copies of one image: not known" in " ".join(capsys.readouterr().out.split())
    (tmp_path / "empty").mkdir()
    assert main(["suggest", str(out), str(tmp_path / "empty")]) == 2
    assert "empty holds no image" in error_of(capsys)
    assert main(["suggest", str(out), str(tmp_path / "unlabelled"), "--count", "0"]) == 2
    assert "--count is 0" in error_of(capsys)
    for name in ("ash", "elm"):
        shutil.rmtree(photos / name)
    assert main(["check", str(photos), "--base", str(base_file)]) == 2
    assert "there is one class ('oak')" in error_of(capsys)


def test_one_image_per_class_has_no_accuracy(photos, base_file, tmp_path, capsys):
    for name in NAMES:
        for path in sorted((photos / name).iterdir())[1:]:
            path.unlink()
    assert main(["check", str(photos), "--base", str(base_file)]) == 0
    shown = capsys.readouterr().out
    assert "the accuracy to expect is not known" in shown
    assert "nothing is known about classes with one photo: ash, elm, oak" in " ".join(shown.split())


def test_explaining_a_folder(photos, base_file, tmp_path, capsys):
    out, maps = tmp_path / "trees.safetensors", tmp_path / "maps"
    FewShotClassifier(base_file, implants=False).fit(*read_folder(photos)).save(out)
    (tmp_path / "some" / "in").mkdir(parents=True)
    shutil.copy(photos / "elm" / "elm 1.png", tmp_path / "some" / "in" / "a.png")
    (tmp_path / "some" / "bad.png").write_bytes(b"no image")
    assert main(["explain", str(out), str(tmp_path / "some"), "--out", str(maps)]) == 0
    said = capsys.readouterr()
    assert "bad.png" in said.err
    assert "elm" in said.out
    assert [str(path.relative_to(maps)) for path in maps.rglob("*.png")] == ["in/a.png.png"]
    assert main(["explain", str(out), str(tmp_path / "some"), "--out", str(tmp_path / "a.png")]) == 2
    assert "name a folder" in error_of(capsys)
    before = sorted((tmp_path / "some").rglob("*"))
    for within in (tmp_path / "some", tmp_path / "some" / "maps"):
        assert main(["explain", str(out), str(tmp_path / "some"), "--out", str(within)]) == 2
        assert f"--out {within} is within {tmp_path / 'some'}, which is read" in error_of(capsys)
    assert sorted((tmp_path / "some").rglob("*")) == before
