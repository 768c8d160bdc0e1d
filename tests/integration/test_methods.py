"""Other methods as a user trains and compares them, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from commands import write_fc100
from implanting.baselines import METHODS
from implanting.cli import main
from toy_photos import write_photos

SMALL = [
    "--width",
    "2",
    "--iterations",
    "3",
    "--validation-tasks",
    "3",
    "--optimizer",
    "adam",
    "--learning-rate",
    "0.001",
]
EPISODES = ["--train-way", "5", "--train-shot", "2", "--train-queries", "2", "--episodes", "2"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fc100(tmp_path_factory.mktemp("data"), classes=6, images=12)


@pytest.fixture(scope="module")
def bases(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base by each way of training, all of them with images held out."""
    folder = tmp_path_factory.mktemp("bases")
    shared = ["--data", str(data), "--hold-out", "4", *SMALL]
    assert main(["pretrain", *shared, "--pooling", "gap", "--out", str(folder / "cosine.safetensors")]) == 0
    for method in ("pn", "gidaris", "maml", "tadam"):
        start = ["--start", str(folder / "cosine.safetensors")] if method == "gidaris" else []
        flags = ["--method", method, *start, *EPISODES, "--out", str(folder / f"{method}.safetensors")]
        assert main(["pretrain", *shared, *flags]) == 0
    return folder


def command_of(base: Path, data: Path, *flags: str) -> list[str]:
    tasks = ["--split", "val", "--shot", "2", "--queries", "3", "--tasks", "7"]
    return ["evaluate", "--base", str(base), "--data", str(data), *tasks, *flags]


def rows(capsys: pytest.CaptureFixture[str], base: Path, data: Path, *flags: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(command_of(base, data, "--json", *flags)) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])["results"]


@pytest.mark.parametrize(
    ("method", "called"),
    [
        ("pn", "prototypical networks (euclidean)"),
        ("gidaris", "generated weights (Gidaris & Komodakis)"),
        ("maml", "MAML (10 steps)"),
        ("tadam", "TADAM"),
    ],
)
def test_a_base_knows_how_it_is_to_be_tested(method: str, called: str, bases: Path, data: Path, capsys) -> None:
    (row,) = rows(capsys, bases / f"{method}.safetensors", data)
    assert (row["method"], row["tasks"]) == (called, 7)
    assert rows(capsys, bases / f"{method}.safetensors", data, "--method", method) == [row]
    assert main(["info", str(bases / f"{method}.safetensors")]) == 0
    assert method in capsys.readouterr().out


def test_methods_are_compared_with_the_first(bases: Path, data: Path, capsys) -> None:
    names = [
        "logistic",
        "prototypes",
        "implants",
        "random-implants",
        "last-block",
        "nearest",
        "simpleshot",
        "imprinted",
    ]
    flags = ["--method", *names, "baseline++", "--shot", "1", "2", "--implant-epochs", "2", "--implant-channels", "2"]
    found = rows(capsys, bases / "cosine.safetensors", data, *flags)
    assert len({row["method"] for row in found}) == 9
    assert len([row for row in found if row["shot"] == 2]) == 9
    assert len([row for row in found if row["shot"] == 1]) == 6  # three need two shots
    first = {row["shot"]: row["mean"] for row in found if row["method"].startswith("logistic")}
    for row in found:
        if not row["method"].startswith("logistic"):
            assert row["gain"] == pytest.approx(row["mean"] - first[row["shot"]], abs=1e-6)


def test_the_first_method_may_have_fewer_shots(bases: Path, data: Path, capsys) -> None:
    flags = ["--method", "last-block", "nearest", "--shot", "1", "2", "--block-steps", "1"]
    assert main(command_of(bases / "cosine.safetensors", data, *flags)) == 0
    printed = capsys.readouterr()
    assert "1-shot: last-block needs 2 supports per class" in printed.err
    assert "1-shot" in printed.out
    assert "gain, paired" in printed.out


@pytest.mark.parametrize("classes", ["base", "both"])
def test_base_classes_are_told_apart_by_those_that_can(classes: str, bases: Path, data: Path, capsys) -> None:
    (row,) = rows(capsys, bases / "gidaris.safetensors", data, "--classes", classes)
    assert 0 <= row["mean"] <= 1
    flags = ["--classes", classes, "--method", "prototypes", "imprinted", "--imprint-steps", "2"]
    assert len(rows(capsys, bases / "cosine.safetensors", data, *flags)) == 2


@pytest.mark.parametrize(
    ("base", "flags", "said"),
    [
        ("cosine", ["--method", "tadam"], "make one with `implanting pretrain` and --method tadam"),
        ("maml", ["--method", "nearest"], "tested by --method maml alone"),
        ("maml", ["--way", "3"], "set --way 5, or train with --train-way 3"),
        ("pn", ["--classes", "both"], "--method pn classifies novel classes only"),
        ("pn", ["--classes", "both", "--method", "prototypes"], "has no class weights"),
        ("cosine", ["--method", "nearest", "--support-views", "2"], "--method nearest is defined without views"),
        ("cosine", ["--method", "nearest", "--implants"], "--implants and --method both select what to test"),
        ("fc100", ["--method", "simpleshot"], "--method simpleshot reads images of the base classes"),
    ],
)
def test_what_a_method_cannot_do_is_one_line(base, flags, said, bases: Path, data: Path, capsys) -> None:
    file = Path(base) if base == "fc100" else bases / f"{base}.safetensors"
    capsys.readouterr()
    assert main(command_of(file, data, *flags)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--method", "pn", "--train-way", "7"], "--train-way is 7; FC100 train has 6 base classes"),
        (["--method", "pn", "--train-shot", "11"], "lower --train-shot or --train-queries"),
        (["--method", "gidaris"], "name it by --start"),
        (["--method", "gidaris", "--start", "fc100", *EPISODES], "has no class weights of the classes of FC100 train"),
        (["--method", "maml", "--network", "resnet12", *EPISODES], "set --network c64f or c128f"),
        (["--method", "maml", "--pooling", "gap"], "set --pooling flatten"),
        (["--method", "tadam", "--pooling", "dense"], "set --pooling gap, gmp or flatten"),
        (["--method", "protonet"], "--method protonet is unknown to training; there are: cosine, pn"),
        (["--start", "fc100", "--width", "2", "--pooling", "dense"], "--start: 3 x resnet12 of width 32"),
    ],
)
def test_what_training_cannot_do_is_one_line(flags, said, data: Path, tmp_path: Path, capsys) -> None:
    command = ["pretrain", "--data", str(data), "--out", str(tmp_path / "base.safetensors"), "--iterations", "2"]
    assert main([*command, *flags]) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_info_lists_every_method(capsys) -> None:
    assert main(["info", "--methods"]) == 0
    printed = capsys.readouterr().out
    for name, card in METHODS.items():
        assert f"{name}\n" in printed
        assert card.citation in printed
    assert main(["info", "--methods", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["methods"].keys() == METHODS.keys()


def test_a_table_with_the_systems_and_the_ablation(tmp_path: Path, capsys) -> None:
    data = write_fc100(tmp_path, classes=6, images=24)
    small = ["--width", "2", "--batch-size", "8", "--iterations", "2", "--validation-tasks", "0"]
    tasks = ["--split", "val", "--shot", "5", "--queries", "3", "--tasks", "3", "--json"]
    shared = ["--data", str(data), "--out", str(tmp_path / "tables"), "--recipe", "cpu", *small, *tasks]
    assert main(["reproduce", "table4", "--systems", *shared]) == 0
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]
    assert all("mean" in row for row in rows)
    assert {row["base"] for row in rows if row["source"] == "literature"} == {
        "C64F MAML",
        "C64F PN",
        "C128F Gidaris & Komodakis",
        "ResNet-12 PN",
        "ResNet-12 TADAM",
    }
    assert main(["reproduce", "ablation", *shared]) == 0
    assert len(json.loads(capsys.readouterr().out.splitlines()[-1])["results"]) == 9
    assert "Baseline++" in (tmp_path / "tables" / "ablation.md").read_text()


def fit(photos: Path, out: Path, *flags: str) -> int:
    return main(["fit", str(photos), "--out", str(out), *flags])


def test_a_classifier_of_photos_by_a_named_method(bases: Path, tmp_path: Path, capsys) -> None:
    (photos := tmp_path / "photos").mkdir()
    write_photos(photos)
    out, base = tmp_path / "own.safetensors", ["--base", str(bases / "pn.safetensors")]
    assert fit(photos, out, *base, "--method", "logistic", "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["method"] == "logistic"
    assert main(["predict", str(out), str(next(photos.rglob("*.jpg")))]) == 0
    changed = ["--from", str(out), "--out", str(out), "--overwrite", "--method", "imprinted"]
    assert main(["fit", *changed]) == 2
    assert "--method cannot be changed afterwards" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("base", "flags", "said"),
    [
        ("pn", ["--method", "tadam"], "--method tadam is a way to train a base: make one with `implanting pretrain`"),
        ("pn", ["--method", "nearest"], "use prototypes or logistic"),
        ("pn", ["--method", "logistic", "--head", "prototypes"], "--method and --head both choose how classes are"),
        ("maml", [], "was trained by maml and answers only as maml does"),
    ],
)
def test_what_cannot_be_fitted_is_one_line(base, flags, said, bases: Path, tmp_path: Path, capsys) -> None:
    (photos := tmp_path / "photos").mkdir()
    write_photos(photos)
    capsys.readouterr()
    assert fit(photos, tmp_path / "own.safetensors", "--base", str(bases / f"{base}.safetensors"), *flags) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "own.safetensors").exists()


@pytest.mark.parametrize("verb", [["serve", "--no-open", "--port", "0"], ["bench", "serve"], ["bench", "classifier"]])
def test_a_base_without_features_of_its_own_is_refused_at_once(verb, bases: Path, capsys) -> None:
    assert main([*verb, "--base", str(bases / "maml.safetensors")]) == 2
    assert "was trained by maml" in capsys.readouterr().err.splitlines()[-1]


def test_a_missing_base_is_said_before_anything_is_served(tmp_path: Path, capsys) -> None:
    assert main(["serve", "--no-open", "--port", "0", "--base", str(tmp_path / "none.safetensors")]) == 2
    assert "there is no such file" in capsys.readouterr().err.splitlines()[-1]
