"""`implanting fit`, `predict` and `explain` as a user runs them: photos in, answers out, and what is left alone."""

import csv
import io
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

from commands import implanting
from implanting.classifier.estimator import FewShotClassifier
from implanting.cli import main
from implanting.images import read_folder
from rounding import NEAR
from toy_photos import write_photos
from toys import coloured, noise

SHADES = coloured(classes=4, per_class=6, size=32, seed=1, prefix="shade")
NAMES = ("ash", "élm", "oak", "red beech")
Said = pytest.CaptureFixture[str]
ROW = ["image", "class", "likeliest", "likeliest_probability", "open_set_score"]


def write_images(folder: Path, images: np.ndarray) -> Path:
    folder.mkdir(parents=True)
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"photo {number}.png")
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four classes of four photos, and of each two further ones beside them."""
    folder = tmp_path_factory.mktemp("photos")
    for number, name in enumerate(NAMES):
        images = SHADES.images[number == SHADES.labels].numpy()
        write_images(folder / "known" / name, images[:4])
        write_images(folder / "asked" / name, images[4:])
    write_images(folder / "strange", noise(6, 32, 32, 3, seed=5).numpy())
    return folder


@pytest.fixture(scope="module")
def trees(photos: Path, base_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With implants that are trained for a moment only."""
    out = tmp_path_factory.mktemp("trees") / "trees.safetensors"
    classifier = FewShotClassifier(base_file, implants=True, implant_epochs=2, keep_supports=True)
    classifier.fit(*read_folder(photos / "known")).save(out)
    return out


def fit(photos: Path, base: Path, out: Path, *flags: str) -> list[str]:
    return ["fit", str(photos), "--base", str(base), "--out", str(out), *flags]


def last_json(said: Said) -> dict:
    return json.loads(said.readouterr().out.splitlines()[-1])


def error_of(said: Said) -> str:
    """The one line of an error, and nothing on stdout."""
    captured = said.readouterr()
    lines = [line for line in captured.err.splitlines() if line.startswith("implanting: ")]
    assert len(lines) == 1, captured.err
    assert captured.out == ""
    return lines[0]


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def predicted(said: Said, *arguments: object) -> list[dict]:
    assert main(["predict", *map(str, arguments), "--json"]) == 0
    return last_json(said)["results"]


def test_fit_tells_what_was_learned(photos, base_file, tmp_path, capsys):
    out = tmp_path / "trees.safetensors"
    assert main(fit(photos / "known", base_file, out, "--implants", "False")) == 0
    shown = capsys.readouterr().out
    assert "red beech" in shown
    assert "without implants" in shown
    assert main(fit(photos / "known", base_file, out, "--implants", "False", "--json")) == 0
    document = last_json(capsys)
    assert document["classes"] == dict.fromkeys(NAMES, 4)
    assert document["calibration"] == "supports"
    paths, labels = read_folder(photos / "known")
    same = FewShotClassifier(base_file, implants=False).fit(paths, labels)
    asked = sorted((photos / "asked").rglob("*.png"))
    assert np.array_equal(FewShotClassifier.load(out).predict_proba(asked), same.predict_proba(asked))


def test_fit_points_out_copies(base_file, tmp_path, capsys):
    write_photos(tmp_path)
    photos = tmp_path / "photos" / "support"
    with Image.open(photos / "oak" / "1.jpg") as photo:
        photo.save(photos / "birch" / "again.jpg", quality=70)
        photo.resize((150, 120)).save(photos / "oak" / "smaller.png")
    assert main(fit(photos, base_file, tmp_path / "trees.safetensors", "--implants", "False")) == 0
    said = capsys.readouterr().err
    assert "the same image, saved twice, is in two classes" in said
    assert all(str(photos / name) in said for name in ("birch/again.jpg", "oak/1.jpg", "oak/smaller.png"))


def test_fit_trains_implants_where_they_help(photos, base_file, tmp_path, capsys):
    out = tmp_path / "trees.safetensors"
    assert main(fit(photos / "known", base_file, out, "--seed", "3", "--json")) == 0
    assert last_json(capsys)["implants"]
    again = FewShotClassifier.load(out)
    assert (again.random_state, again.learned_.supports) == (3, None)
    assert again.score(*read_folder(photos / "asked")) == 1


def test_predict_a_folder_a_pattern_a_file_and_standard_input(trees, photos, capsys, monkeypatch):
    asked = sorted((photos / "asked").rglob("*.png"))
    expected = FewShotClassifier.load(trees).predict(asked).tolist()
    assert expected == [path.parent.name for path in asked]

    def classes(*inputs: object) -> list[tuple[str, str]]:
        return [(row["image"], row["class"]) for row in predicted(capsys, trees, *inputs)]

    pairs = [(str(path), label) for path, label in zip(asked, expected, strict=True)]
    assert sorted(classes(photos / "asked")) == sorted(pairs)
    assert sorted(classes(photos / "asked" / "**" / "*.png")) == sorted(pairs)
    assert classes(*asked) == pairs
    for separator in ("\n", "\0"):
        text = separator.join(map(str, asked)).encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert classes("-") == pairs


def test_predict_shows_the_most_probable_classes(trees, photos, capsys):
    asked = sorted((photos / "asked").rglob("*.png"))
    classifier = FewShotClassifier.load(trees)
    rows = predicted(capsys, trees, *asked, "--top", "3")
    for row, probabilities in zip(rows, classifier.predict_proba(asked), strict=True):
        best = np.argsort(-probabilities)[:3]
        assert [entry["class"] for entry in row["top"]] == classifier.classes_[best].tolist()
        assert [entry["probability"] for entry in row["top"]] == pytest.approx(probabilities[best], abs=NEAR)
    assert [row["open_set_score"] for row in rows] == pytest.approx(classifier.open_set_score(asked), abs=NEAR)
    assert len(predicted(capsys, trees, asked[0], "--top", "99")[0]["top"]) == 4
    assert main(["predict", str(trees), str(asked[0])]) == 0
    assert "1 image, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("top", "columns"),
    [
        ("1", [*ROW, "error"]),
        ("2", [*ROW, "class_1", "probability_1", "class_2", "probability_2", "error"]),
    ],
)
def test_predict_as_comma_separated_lines(trees, photos, capsys, top, columns):
    assert main(["predict", str(trees), str(photos / "asked"), "--csv", "--top", top]) == 0
    header, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert header == columns
    assert len(rows) == 8
    assert all(row[1] == Path(row[0]).parent.name for row in rows)


def test_predict_none_of_these(photos, base_file, tmp_path, capsys):
    out = tmp_path / "trees.safetensors"
    unknown = ("--implants", "False", "--unknown", "no tree", "--refuse", "0.3")
    assert main(fit(photos / "known", base_file, out, *unknown)) == 0
    capsys.readouterr()
    answers = [row["class"] for row in predicted(capsys, out, photos / "strange")]
    assert "no tree" in answers
    assert answers == FewShotClassifier.load(out).predict(sorted((photos / "strange").iterdir())).tolist()
    refused = [row for row in predicted(capsys, out, photos / "strange") if row["class"] == "no tree"]
    assert all(row["likeliest"] in NAMES and 0 < row["likeliest_probability"] <= 1 for row in refused)
    assert main(["predict", str(out), refused[0]["image"]]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if refused[0]["image"] in line)
    assert line.endswith(f"{refused[0]['likeliest']} {refused[0]['likeliest_probability']:.2f}")
    others = [row["class"] for row in predicted(capsys, out, photos / "strange", "--unknown", "?", "--refuse", "0.9")]
    assert others.count("?") >= answers.count("no tree")
    assert main(["predict", str(out), str(photos / "strange"), "--refuse", "0.001", "--json"]) == 0
    assert "no image is answered 'no tree': 16 held-out images" in capsys.readouterr().err


def test_predict_refuses_nothing_without_a_label_for_it(trees, photos, capsys):
    image = str(photos / "asked" / "oak" / "photo 0.png")
    assert main(["predict", str(trees), image, "--refuse", "0.5"]) == 2
    assert "--refuse has no effect" in error_of(capsys)
    (row,) = predicted(capsys, trees, image, "--refuse", "0.9", "--unknown", "no tree")
    assert row["class"] == "no tree"


@pytest.mark.parametrize("command", [["predict", "{trees}", ""], ["score", "{trees}", ""], ["fit", "", "--out", "x"]])
def test_an_empty_argument_is_not_the_current_folder(trees, photos, capsys, monkeypatch, command):
    monkeypatch.chdir(photos / "asked")
    assert main([part.replace("{trees}", str(trees)) for part in command]) == 2
    assert "an argument is empty" in error_of(capsys)


def test_changing_a_saved_classifier(trees, photos, tmp_path, capsys):
    before, out = trees.read_bytes(), tmp_path / "more.safetensors"
    change = ["fit", "--from", str(trees), "--out", str(out), "--json"]
    assert main([*change, "--add", f"moss={photos / 'strange'}", "--remove", "oak"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["classes"] == {"ash": 4, "moss": 6, "red beech": 4, "élm": 4}
    assert "calibration of probabilities, stay as they were for the earlier classes" in said.err
    assert "; --refit trains and calibrates again" in said.err
    assert trees.read_bytes() == before
    assert {row["class"] for row in predicted(capsys, out, photos / "strange")} == {"moss"}
    oak = photos / "asked" / "oak" / "*.png"
    assert main([*change, "--add-images", f"oak={oak}", "--refit"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["classes"]["oak"] == 6
    assert "--refit" not in said.err
    fresh = FewShotClassifier.load(trees)
    paths, labels = read_folder(photos / "known")
    further = sorted((photos / "asked" / "oak").iterdir())
    fresh.fit([*paths, *further], [*labels, *["oak"] * 2])
    assert np.array_equal(fresh.predict_proba(paths), FewShotClassifier.load(out).predict_proba(paths))


def test_settings_of_a_saved_classifier_may_change_where_they_can(trees, tmp_path, capsys):
    out = tmp_path / "more.safetensors"
    change = ["fit", "--from", str(trees), "--out", str(out)]
    assert main([*change, "--unknown", "no tree", "--refuse", "0.2"]) == 0
    again = FewShotClassifier.load(out)
    assert (again.unknown, again.refuse) == ("no tree", 0.2)
    capsys.readouterr()
    assert main([*change, "--image-size", "64"]) == 2
    assert "--image-size cannot be changed" in error_of(capsys)


def test_a_setting_may_be_changed_to_its_default(trees, tmp_path):
    refusing, out = tmp_path / "refusing.safetensors", tmp_path / "out.safetensors"
    assert main(["fit", "--from", str(trees), "--out", str(refusing), "--unknown", "no tree", "--refuse", "0.3"]) == 0
    assert main(["fit", "--from", str(refusing), "--out", str(out), "--remove", "oak"]) == 0
    assert FewShotClassifier.load(out).refuse == 0.3
    assert main(["fit", "--from", str(refusing), "--out", str(out), "--refuse=0.05"]) == 0
    again = FewShotClassifier.load(out)
    assert (again.unknown, again.refuse) == ("no tree", 0.05)


@pytest.mark.parametrize(
    ("flags", "own", "value"),
    [
        (["--head", "logistic", "--implants", "False"], "head", "logistic"),
        (["--implants", "False"], "implants", False),
        (["--implants", "auto"], "implants", "auto"),
        (["--seed", "3"], "random_state", 3),
    ],
)
def test_what_training_decides_is_changed_by_refit_only(trees, tmp_path, capsys, flags, own, value):
    out = tmp_path / "more.safetensors"
    change = ["fit", "--from", str(trees), "--out", str(out), *flags]
    assert main(change) == 2
    assert "changes nothing without training: add --refit" in error_of(capsys)
    assert not out.exists()
    assert main([*change, "--refit"]) == 0
    assert getattr(FewShotClassifier.load(out), own) == value
    before, after = load_file(trees), load_file(out)
    assert value == "auto" or any(not before[name].equal(after[name]) for name in before.keys() & after.keys())


def test_settings_that_stay_as_they_are_may_be_named(trees, tmp_path):
    out = tmp_path / "more.safetensors"
    same = ["--implants", "True", "--seed", "0", "--head", "auto", "--keep-supports"]
    assert main(["fit", "--from", str(trees), "--out", str(out), *same]) == 0
    assert out.read_bytes() == trees.read_bytes()


def test_the_examples_cannot_be_dropped_afterwards(trees, tmp_path, capsys):
    out = tmp_path / "more.safetensors"
    assert main(["fit", "--from", str(trees), "--out", str(out), "--no-keep-supports"]) == 2
    assert "--keep-supports cannot be changed" in error_of(capsys)


def test_numbers_as_classes_can_be_changed_by_name(base_file, photos, tmp_path, capsys):
    paths, labels = read_folder(photos / "known")
    numbered = FewShotClassifier(base_file, implants=False).fit(paths, [NAMES.index(label) for label in labels])
    numbered.save(tmp_path / "numbers.safetensors")
    change = ["fit", "--from", str(tmp_path / "numbers.safetensors"), "--out", str(tmp_path / "more.safetensors")]
    assert main([*change, "--add", f"7={photos / 'strange'}", "--remove", "2", "--json"]) == 0
    assert list(last_json(capsys)["classes"]) == ["0", "1", "3", "7"]
    assert {row["class"] for row in predicted(capsys, tmp_path / "more.safetensors", photos / "strange")} == {7}
    assert main([*change, "--add", f"moss={photos / 'strange'}"]) == 2
    assert "not of the kind of the others" in error_of(capsys)


def test_slim_files(photos, base_file, tmp_path, capsys):
    moved = shutil.copy(base_file, tmp_path / "moved.safetensors")
    slim, whole = tmp_path / "slim.safetensors", tmp_path / "whole.safetensors"
    assert main(fit(photos / "known", moved, slim, "--implants", "False", "--slim")) == 0
    assert main(fit(photos / "known", moved, whole, "--implants", "False")) == 0
    assert not any(name.startswith("base.") for name in load_file(slim))
    capsys.readouterr()
    found = predicted(capsys, slim, photos / "asked")
    assert found == predicted(capsys, whole, photos / "asked")
    Path(moved).unlink()
    assert main(["predict", str(slim), str(photos / "asked")]) == 2
    assert "is slim and needs its base network" in error_of(capsys)
    assert predicted(capsys, slim, photos / "asked", "--base", base_file) == found
    assert predicted(capsys, whole, photos / "asked") == found
    explained = ["explain", str(slim), str(photos / "asked" / "oak" / "photo 0.png"), "--base", str(base_file)]
    assert main([*explained, "--out", str(tmp_path / "a.png")]) == 0
    change = ["fit", "--from", str(slim), "--remove", "oak", "--slim", "--out", str(tmp_path / "less.safetensors")]
    assert main([*change, "--base", str(base_file)]) == 0
    assert "oak" not in {row["class"] for row in predicted(capsys, tmp_path / "less.safetensors", photos / "asked")}


def test_explain_says_that_the_answer_is_no_class(trees, photos, tmp_path, capsys):
    classifier, image = FewShotClassifier.load(trees), photos / "asked" / "oak" / "photo 0.png"
    classifier.unknown, classifier.refuse = "none of these", 0.9
    refusing = tmp_path / "refusing.safetensors"
    classifier.save(refusing)
    assert list(classifier.predict([image])) == ["none of these"]
    for flags, start in (([], "none of these; nearest: oak"), (["--label", "oak"], "oak")):
        assert main(["explain", str(refusing), str(image), "--out", str(tmp_path / "oak.png"), *flags]) == 0
        assert capsys.readouterr().out.startswith(f"{tmp_path / 'oak.png'}: {start} ")


def test_explain_draws_a_picture(trees, photos, tmp_path, capsys):
    image, out = photos / "asked" / "oak" / "photo 0.png", tmp_path / "oak.png"
    assert main(["explain", str(trees), str(image), "--out", str(out)]) == 0
    (probability,) = FewShotClassifier.load(trees).predict_proba([image]).max(1)
    assert capsys.readouterr().out == f"{out}: oak {100 * probability:.1f} %\n"
    flags = ["--label", "élm", "--kind", "softmax", "--finer", "2"]
    assert main(["explain", str(trees), str(image), "--out", str(out.with_suffix(".jpg")), *flags]) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'oak.jpg'}: élm ")
    assert main(["explain", str(trees), str(image), "--out", str(tmp_path / "three.png"), "--top", "3"]) == 0
    with Image.open(out) as one, Image.open(tmp_path / "three.png") as three:
        assert three.width > one.width


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "a.txt"], "a.txt is not a name for a picture"),
        (["--out", "a.png", "--label", "fir"], "no class 'fir'"),
        (["--out", "a.png", "--top", "0"], "--top is 0"),
        (["--out", "a.png", "--label", "oak", "--top", "3"], "--top is 3; it must be left out if --label names"),
        (["--out", "a.png", "--finer", "1000"], "--finer is 1000; it must be from 1 to 128"),
        (["--out", "gone/a.png"], "cannot be written"),
    ],
)
def test_explain_says_what_is_wrong(trees, photos, tmp_path, capsys, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert main(["explain", str(trees), str(photos / "asked" / "oak" / "photo 0.png"), *arguments]) == 2
    assert said in error_of(capsys)
    assert list(tmp_path.iterdir()) == []


def unreadable(folder: Path) -> None:
    (folder / "oak" / "photo 1.png").write_bytes((folder / "oak" / "photo 1.png").read_bytes()[:300])


def enormous(folder: Path) -> None:
    """A header that promises more pixels than may be read."""
    Image.new("1", (20_000, 20_000)).save(folder / "oak" / "photo 1.png")


@pytest.mark.parametrize("spoil", [unreadable, enormous])
def test_a_bad_image_among_good_ones_is_named(photos, base_file, trees, tmp_path, capsys, spoil):
    spoilt = Path(shutil.copytree(photos / "known", tmp_path / "spoilt"))
    spoil(spoilt)
    out = tmp_path / "trees.safetensors"
    out.write_bytes(b"what was there before")
    before = listing(tmp_path)
    refit = fit(spoilt, base_file, out, "--implants", "False", "--json")
    change = ["fit", "--from", str(trees), "--add", f"fir={spoilt / 'oak'}", "--out", str(out), "--json"]
    for command in (refit, change):
        assert main(command) == 2
        assert "exists already, and is not of the kind" in error_of(capsys)
        command.append("--overwrite")
        assert main(command) == 2
        assert "photo 1.png" in error_of(capsys)
        assert listing(tmp_path) == before
        assert main([*command, "--skip-bad"]) == 0
        said = capsys.readouterr()
        assert "photo 1.png" in said.err
        document = json.loads(said.out)
        assert document["classes"]["fir" if command is change else "oak"] == 3
        out.write_bytes(b"what was there before")
    assert main(["predict", str(trees), str(spoilt), "--json"]) == 0
    document = last_json(capsys)
    assert len(document["results"]) == 15
    assert [Path(failure["image"]).name for failure in document["left_out"]] == ["photo 1.png"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--add", "oak={photos}/strange"], "--add-images"),
        (["--add", "fir"], "CLASS=IMAGES"),
        (["--add", "fir=gone/"], "gone does not exist"),
        (["--add-images", "fir={photos}/strange"], "no class 'fir'"),
        (["--remove", "fir"], "no class 'fir'"),
        (["--remove", "oak", "ash", "élm"], "'élm' cannot be removed: 2 are left and two are needed"),
        (["--unknown", "oak"], "'oak' is one of the classes"),
        (["--refuse", "2"], "--refuse is 2"),
    ],
)
def test_a_change_that_cannot_be_made_writes_nothing(trees, photos, tmp_path, capsys, flags, said):
    own = Path(shutil.copy(trees, tmp_path / "own.safetensors"))
    given = [flag.replace("{photos}", str(photos)) for flag in flags]
    assert main(["fit", "--from", str(own), "--out", str(own), *given]) == 2
    assert "is what is read from" in error_of(capsys)
    assert main(["fit", "--from", str(own), "--out", str(own), "--overwrite", *given]) == 2
    assert said in error_of(capsys)
    assert listing(tmp_path) == {"own.safetensors": trees.read_bytes()}


def no_image(folder: Path) -> None:
    (folder / "oak").mkdir(parents=True)
    (folder / "oak" / "notes.txt").write_text("nothing to see")


def one_class(folder: Path) -> None:
    write_images(folder / "oak", noise(2, 32, 32, 3).numpy())


def two_classes(folder: Path) -> None:
    for name in ("oak", "ash"):
        write_images(folder / name, noise(1, 32, 32, 3).numpy())


@pytest.mark.parametrize(
    ("make", "flags", "said"),
    [
        (lambda folder: None, [], "missing"),
        (no_image, [], "holds no image"),
        (one_class, [], "there is one class ('oak')"),
        (one_class, ["--from", "x.safetensors"], "not both"),
        (one_class, ["--remove", "oak"], "name it with --from"),
        (two_classes, ["--device", "cuda:7"], "--device cuda:7"),
        (two_classes, ["--image-size", "5"], "5 x 5 px"),
        (two_classes, ["--implants", "True"], "implants need a class with two supports"),
    ],
)
def test_photos_that_make_no_classifier(base_file, tmp_path, capsys, make, flags, said):
    make(tmp_path / "photos")
    before = listing(tmp_path)
    assert main(fit(tmp_path / "photos", base_file, tmp_path / "out.safetensors", *flags)) == 2
    assert said in error_of(capsys)
    assert listing(tmp_path) == before


def damaged(path: Path) -> bytes:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    return bytes(content)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda trees, base: base.read_bytes(), "holds a base; a classifier is needed here"),
        (lambda trees, base: trees.read_bytes()[:-9], "truncated"),
        (lambda trees, base: damaged(trees), "is damaged"),
        (lambda trees, base: b"text", "truncated, damaged or of another kind"),
    ],
    ids=["base", "truncated", "damaged", "text"],
)
def test_files_that_are_no_classifier(
    trees: Path, base_file: Path, photos: Path, tmp_path: Path, capsys: Said,
    spoil: Callable[[Path, Path], bytes], said: str,
) -> None:  # fmt: skip
    file = tmp_path / "spoilt.safetensors"
    file.write_bytes(spoil(trees, base_file))
    before, image = listing(tmp_path), str(photos / "asked" / "oak" / "photo 0.png")
    commands: Sequence[list[str]] = (
        ["predict", str(file), image],
        ["explain", str(file), image, "--out", str(tmp_path / "a.png")],
        ["fit", "--from", str(file), "--remove", "oak", "--out", str(file), "--overwrite"],
    )
    for command in commands:
        assert main(command) == 2
        assert said in error_of(capsys)
        assert listing(tmp_path) == before


def test_a_process_of_its_own_answers_alike(trees, photos, capsys):
    rows = predicted(capsys, trees, photos / "asked")
    finished = implanting(sys.executable, "-m", "implanting", "predict", str(trees), str(photos / "asked"), "--json")
    assert json.loads(finished.stdout)["results"] == rows
