"""`implanting evaluate` as a user runs it: what it refuses before it starts workers, tells and writes."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import implanting, write_fc100
from implanting.base import load_base
from implanting.cli import main
from implanting.datasets import read_dataset
from toys import write_trained_base

SMALL = ["--width", "2", "--batch-size", "8", "--iterations", "4", "--validation-tasks", "0"]
IMPLANTS = ["--implants", "--implant-channels", "2", "--implant-epochs", "2"]
HELD_OUT = 8


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training and validation classes; there is no split test."""
    return write_fc100(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def held_out_base(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base that held some images of each class out of training."""
    out = tmp_path_factory.mktemp("held") / "base.safetensors"
    assert main(["pretrain", "--data", str(data), "--out", str(out), *SMALL, "--hold-out", str(HELD_OUT)]) == 0
    return out


@pytest.fixture(scope="module")
def flatten_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base whose prototypes are of all locations."""
    return write_trained_base(tmp_path_factory.mktemp("flatten") / "flatten.safetensors", pooling="flatten")


def command_of(base: Path, data: Path, *flags: str) -> list[str]:
    return ["evaluate", "--base", str(base), "--data", str(data), "--queries", "6", "--tasks", "9", *flags]


def document_of(printed: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    return json.loads(printed.splitlines()[-1], parse_constant=refuse)


def evaluated(capsys: pytest.CaptureFixture[str], base: Path, data: Path, *flags: str) -> dict[str, Any]:
    assert main(command_of(base, data, "--split", "val", "--json", *flags)) == 0
    return document_of(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("base", "flags", "said"),
    [
        ("held_out_base", ["--shot", "2", *IMPLANTS, "--cache", "CACHE"], "the cache"),
        ("base_file", ["--classes", "both", "--shot", "1"], "--hold-out 100"),
        ("base_file", ["--classes", "base"], "--hold-out 100"),
        ("flatten_base", ["--shot", "2", *IMPLANTS], "trained with flatten"),
        ("held_out_base", ["--classes", "base", "--queries", "9"], "8 images that were not trained on; 9 queries"),
        ("held_out_base", ["--shot", "19"], "19-shot with 6 queries needs 25"),
        ("held_out_base", ["--save-tasks", "none/tasks.npz"], "--save-tasks none/tasks.npz cannot be written"),
        (
            "held_out_base",
            ["--save-results", "none/results.npz"],
            "--save-results none/results.npz cannot be written: there is no folder none",
        ),
    ],
)
def test_what_is_wrong_is_said_once_before_workers_are_started(
    base: str,
    flags: list[str],
    said: str,
    data: Path,
    base_file: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("implanting.cli.verbs.evaluate.launch", lambda *_: pytest.fail("launched"))
    file = request.getfixturevalue(base)
    if "CACHE" in flags:
        flags = [flag.replace("CACHE", str(tmp_path / "cache")) for flag in flags]
        assert main(command_of(base_file, data, "--split", "val", *flags)) == 0
    capsys.readouterr()
    assert main(command_of(file, data, "--split", "val", *flags, "--workers", "2")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_base_classes_need_no_other_split_and_are_shared_among_workers(
    held_out_base: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = command_of(held_out_base, data, "--classes", "base", "--json")
    assert main(command) == 0
    alone = document_of(capsys.readouterr().out)
    shared = document_of(implanting(sys.executable, "-m", "implanting", *command, "--workers", "2").stdout)
    assert alone["results"] == shared["results"]


def test_one_task_has_no_interval(held_out_base: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--tasks", "1", "--shot", "2", *IMPLANTS]
    prototypes, implants = evaluated(capsys, held_out_base, data, *flags)["results"]
    assert (prototypes["interval"], implants["gain_interval"]) == (None, None)
    assert main(command_of(held_out_base, data, "--split", "val", *flags)) == 0
    printed = capsys.readouterr().out
    assert "accuracy in %, 1 task, 6 queries per class" in printed
    assert "nan" not in printed


@pytest.mark.parametrize("classes", ["novel", "base", "both"])
def test_every_task_class_and_confusion_can_be_had(
    classes: str, held_out_base: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.npz"
    flags = ["--shot", "1", "2", "--classes", classes, "--save-results", str(file)]
    rows = evaluated(capsys, held_out_base, data, *flags)["results"]
    saved = np.load(file)
    assert saved["method"].tolist() == [row["method"] for row in rows]
    assert saved["per_task"].mean(1).tolist() == pytest.approx([row["mean"] for row in rows])
    assert [row["shot"] for row in rows] == ([None] if classes == "base" else [1, 2])
    asked = 9 * 5 * 6 * (2 if classes == "both" else 1)
    assert saved["confusion"].sum((1, 2)).tolist() == [asked] * len(rows)
    names = [str(number) for number in range(10)]
    told = {"novel": names[5:], "base": names[:5]}
    told["both"] = [*(f"base/{name}" for name in told["base"]), *(f"novel/{name}" for name in told["novel"])]
    assert saved["class_names"].tolist() == told[classes]
    for row, confusion in zip(rows, saved["confusion"], strict=True):
        assert list(row["per_class"].values()) == pytest.approx((confusion.diagonal() / confusion.sum(1)).tolist())
        assert list(row["per_class"]) == told[classes]


@pytest.mark.parametrize("classes", ["base", "both"])
def test_all_held_out_images_may_be_queries_and_their_tasks_are_saved(
    classes: str, held_out_base: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tasks.npz"
    flags = ["--shot", "2", "--queries", str(HELD_OUT), "--way", "3", "--classes", classes, "--save-tasks", str(file)]
    evaluated(capsys, held_out_base, data, *flags)
    saved = np.load(file)
    assert saved["base_query"].shape == (9, 3, HELD_OUT)
    images = read_dataset(data, str(saved["base_split"]))
    assert set(saved["base_query"].flatten().tolist()) <= set(load_base(held_out_base).description.held_out)
    assert (images.labels.numpy()[saved["base_query"]] == saved["base_classes"][..., None]).all()
    assert tuple(saved["base_class_names"]) == images.class_names
    assert ("support_2" in saved) == (classes == "both")


def test_the_python_on_base_classes(
    held_out_base: Path,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluate.md").read_text()
    (program,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("base.safetensors").symlink_to(held_out_base)
    Path("data").mkdir()
    Path("data/FC100").symlink_to(data)
    names: dict[str, Any] = {}
    exec(program.replace('"queries": 15, "tasks": 1000', '"queries": 6, "tasks": 9'), names)
    for classes, result in (("base", names["alone"]), ("both", names["together"])):
        (row,) = evaluated(capsys, held_out_base, data, "--classes", classes, "--shot", "5")["results"]
        assert (row["method"], row["mean"]) == (result.method, result.mean)


def test_resized_images_are_told(held_out_base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_fc100(tmp_path, size=40)
    flags = ["--split", "val", "--shot", "1", "--json"]
    assert main(command_of(held_out_base, tmp_path, *flags)) == 0
    printed = capsys.readouterr()
    assert "resized from 40 x 40 px (its first image) to 32 x 32 px" in printed.err
    (images,) = document_of(printed.out)["images"]
    assert (images["stored_size"], images["size"]) == ([40, 40], [32, 32])


def test_images_as_stored_need_no_remark(held_out_base: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command_of(held_out_base, data, "--split", "val", "--shot", "1")) == 0
    assert capsys.readouterr().err == ""


def test_pooling_that_flatten_does_not_use_is_told(
    flatten_base: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for flags, told in (([], False), (["--query-pooling", "gmp"], True)):
        assert main(command_of(flatten_base, data, "--split", "val", "--shot", "1", *flags)) == 0
        assert ("--query-pooling are not used" in capsys.readouterr().err) == told


def test_a_shot_named_twice_is_evaluated_once(
    held_out_base: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = evaluated(capsys, held_out_base, data, "--shot", "2", "1", "2")["results"]
    assert [(row["shot"], "gain" in row) for row in rows] == [(2, False), (1, False)]


def test_the_table_of_base_classes_has_one_figure(
    held_out_base: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command_of(held_out_base, data, "--classes", "base", "--shot", "1", "5")) == 0
    printed = capsys.readouterr().out
    assert printed.count(" ± ") == 2  # the figure, and the caption
    assert "-shot" not in printed
    assert "in brackets, query pooling" in " ".join(printed.split())
