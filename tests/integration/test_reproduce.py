"""Every table on a sample of a few noisy colours: it runs, agrees with the other verbs, and takes up what is there."""

import json
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import write_fc100
from implanting.cli import main
from implanting.reproduce import TABLES

SHORT = ["--recipe", "cpu", "--width", "4", "--iterations", "3", "--batch-size", "16", "--validation-tasks", "0"]
TASKS = ["--split", "val", "--queries", "6", "--tasks", "5", "--seed", "3"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fc100(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


def reproduce(table: str, data: Path, out: Path, *flags: str) -> int:
    held_out = ["--hold-out", "8"] if table == "table2" else []
    return main(["reproduce", table, "--data", str(data), "--out", str(out), *SHORT, *TASKS, *held_out, *flags])


def last_json(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


CLAIMS = {"table1": [1, 2], "table2": [1, 3, 7], "table3": [6], "table4": [1, 4, 5], "table5": [1, 4]}


@pytest.mark.parametrize("name", TABLES)
def test_every_table(name: str, data: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(name, data, out, "--json") == 0
    document = last_json(capsys)
    rows = document["results"]
    assert len(rows) == len(list(TABLES[name].cells()))
    for row, cell in zip(rows, TABLES[name].cells(), strict=True):
        assert (row["source"] == "literature") == (cell.setting is None)
        assert row.get("paper") == (cell.figure and cell.figure.mean / 100)
        if cell.setting:
            assert (row["tasks"], row["shot"]) == (5, cell.setting.shot)
            assert 0 < row["mean"] <= 1
            assert row["difference"] == (cell.figure and pytest.approx(row["mean"] - row["paper"]))
    assert [claim["claim"] for claim in document["claims"]] == CLAIMS[name]
    assert {claim["verdict"] for claim in document["claims"]} <= {"held", "not held", "not decided"}
    assert json.loads((out / f"{name}.json").read_text()) == document
    assert "† Not the paper's experiment" in (out / f"{name}.md").read_text()
    with Image.open(out / f"{name}.png") as picture:
        assert min(picture.size) > 200


def test_the_printed_table_has_ours_and_the_literature(
    data: Path, out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert reproduce("table5", data, out, "--shot", "5", "--implant-channels", "2", "--implant-epochs", "2") == 0
    printed = capsys.readouterr().out
    ours = r"ours: DC \+ IMP \(GAP/DC\), channels 2, epochs 2 .* \d+\.\d\d ± \d+\.\d\d"
    assert re.search(ours, printed)
    assert re.search(r"DC \+ IMP \(GAP/DC\) .* \d+\.\d\d ± \d+\.\d\d", printed)
    assert re.search(r"paper 57\.63, [+-]\d+\.\d\d†", printed)
    assert re.search(r"TADAM .*, as reported .* 56\.10 ± 0\.40", printed)
    assert "41.02" not in printed  # of one shot
    assert re.search(r"4\. implants improve on dense classification .* (held|not held|not decided)", printed)


@pytest.mark.parametrize("classes", ["novel", "base", "both"])
def test_cells_are_what_evaluate_gives(data: Path, out: Path, classes: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = "table5" if classes == "novel" else "table2"
    assert reproduce(table, data, out, "--json") == 0
    rows = [row for row in last_json(capsys)["results"] if row.get("base") == "ResNet-12 DC"]
    (base,) = out.glob("resnet12-dense.safetensors" if classes == "novel" else "resnet12-dense-hold-out-8.safetensors")
    implants = ["--implants"] if classes == "novel" else []
    flags = ["--data", str(data), *TASKS, "--classes", classes, "--shot", "5", *implants, "--json"]
    assert main(["evaluate", "--base", str(base), *flags]) == 0
    expected = {row["method"]: row["mean"] for row in last_json(capsys)["results"]}
    found = {row["method"]: row["mean"] for row in rows if row["shot"] == 5 and row["classes"] == classes}
    assert len(expected) == (2 if classes == "novel" else 1)
    assert found.items() >= expected.items()


def test_what_is_there_is_taken_up(data: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce("table5", data, out, "--shot", "5", "--json") == 0
    expected = last_json(capsys)["results"]
    for base in ("resnet12-gap", "resnet12-dense"):
        shutil.copy(out / f"{base}.safetensors", tmp_path)

    def run() -> dict[Path, int]:
        assert reproduce("table5", data, tmp_path, "--shot", "5", "--json") == 0
        assert last_json(capsys)["results"] == expected
        kept = [*tmp_path.glob("*.safetensors"), *tmp_path.glob("results/*.npz")]
        return {path: path.stat().st_mtime_ns for path in kept}

    first = run()
    assert len(first) == 2 + 3
    assert list(tmp_path.glob("*.jsonl")) == []  # nothing was trained
    lost = max(first, key=lambda path: (path.suffix == ".npz", first[path]))
    lost.unlink()
    second = run()
    assert {path for path in first if second[path] != first[path]} == {lost}


def test_a_base_of_other_settings_or_data_is_refused(
    data: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("table5", data, out, "--json") == 0
    before = sorted(path.name for path in out.iterdir())

    def said(data: Path, *flags: str) -> str:
        assert reproduce("table5", data, out, *flags) == 2
        return capsys.readouterr().err.splitlines()[-1]

    line = said(data, "--width", "2")
    assert "resnet12-gap.safetensors: --width was 4 and is 2" in line
    assert "another --out" in line
    assert "other images" in said(write_fc100(tmp_path, images=23))
    assert sorted(path.name for path in out.iterdir()) == before


def test_further_images_of_base_classes_need_no_hold_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_fc100(tmp_path)
    train = pickle.loads((data / "FC100_train.pickle").read_bytes())
    extra = {"data": np.ascontiguousarray(train["data"][:, ::-1]), "labels": train["labels"]}
    (data / "FC100_train_phase_test.pickle").write_bytes(pickle.dumps(extra))
    arguments = ["reproduce", "table2", "--data", str(data), "--out", str(tmp_path / "out"), *SHORT, *TASKS, "--json"]
    assert main(arguments) == 0
    assert (tmp_path / "out" / "resnet12-gmp.safetensors").exists()
    assert any("further images of them" in note for note in last_json(capsys)["notes"])


def test_the_figure_takes_up_the_bases_of_a_table(data: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce("table5", data, out, "--json") == 0
    before = {base: base.stat().st_mtime_ns for base in out.glob("*.safetensors")}
    capsys.readouterr()
    assert reproduce("figure3", data, out, "--json") == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out.splitlines()[-1])
    assert {base: base.stat().st_mtime_ns for base in out.glob("*.safetensors")} == before
    assert "row of base classes is left out" in printed.err
    assert any("row of base classes is left out" in note for note in document["notes"])
    assert {row["row"] for row in document["results"]} <= {
        f"novel, {which} better" for which in ("dense", "pooling")
    } | {"novel, both right"}
    assert json.loads((out / "figure3.json").read_text()) == document
    with Image.open(out / "figure3.png") as picture:
        assert min(picture.size) > 200


def test_the_figure_of_base_classes_is_of_images_held_out(
    data: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("figure3", data, out, "--hold-out", "8", "--json") == 0
    document = last_json(capsys)
    of_base = [row for row in document["results"] if row["row"] == "base, both right"]
    assert of_base  # five noisy colours are learned in three steps
    for row in of_base:
        assert row["class"] == row["pooling"]["answer"] == row["dense"]["answer"]
        assert np.array(row["dense"]["map"]).shape == (2, 2)
    assert "base: 40 images" in document["notes"][0]  # 8 of each of 5 classes
    assert (out / "resnet12-gap-hold-out-8.safetensors").exists()


def test_the_printed_figure(
    data: Path, out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert reproduce("figure3", data, out) == 0
    printed = capsys.readouterr().out
    rows = json.loads((out / "figure3.json").read_text())["results"]
    assert rows
    for row in rows:
        probability = f"{100 * row['dense']['probability']:.0f} %"
        assert re.search(rf"{row['row']} .* {row['class']} .* {probability}", printed)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["table1", "--shot", "3"], "--shot is 3"),
        (["table1", "--implant-channels", "64"], "no implants"),
        (["table2", "--hold-out", "24"], "holding out 24"),
        (["table5", "--way", "6"], "6 classes; found 5"),
        (["table4", "--systems", "--way", "4"], "--way is 4, and MAML is trained on 5 classes: leave out --way, or"),
        (["table5", "--queries", "20"], "lower --shot or --queries"),
        (["table5", "--split", "test"], "no split 'test'"),
        (["table5", "--epochs", "1"], "not both"),
        (["table5", "--workers", "0"], "--workers"),
        (["figure3", "--shot", "1", "5"], "--shot is 1 5"),
        (["figure3", "--shot", "20"], "lower --shot or --queries"),
        (["figure3", "--implant-epochs", "9"], "no implants"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_trained(
    data: Path, tmp_path: Path, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table, *others = flags
    arguments = ["reproduce", table, "--data", str(data), "--out", str(tmp_path / "out"), *SHORT, *TASKS, *others]
    assert main(arguments) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
    assert list(tmp_path.glob("out/*")) == []


@pytest.mark.parametrize("name", ["table5.md", "table5.json", "table5.png"])
def test_a_foreign_file_in_the_folder_is_not_replaced(
    data: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text("my notes")
    assert main(["reproduce", "table5", "--data", str(data), "--out", str(tmp_path), *SHORT, *TASKS]) == 2
    assert f"--out {tmp_path} holds {name}, which was not written by this command" in capsys.readouterr().err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "my notes"}
