"""The verbs as a user runs them: exit status, what goes to stdout, and one clear line for what can be mended."""

import dataclasses
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import save_file
from torch import zeros

from commands import implanting, write_fc100
from implanting.base import load_base
from implanting.cli.main import VERBS, main
from implanting.cli.parsing import parse
from implanting.cli.verbs.bench import SUBJECTS, print_results
from implanting.config import TaskConfig
from implanting.datasets import read_dataset
from implanting.datasets.splits import NAMED
from implanting.fewshot import draw_tasks

SMALL = ["--width", "2", "--batch-size", "8", "--iterations", "4", "--validation-tasks", "5"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fc100(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def base(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("base") / "base.safetensors"
    assert main(["pretrain", "--data", str(data), "--out", str(out), *SMALL]) == 0
    return out


def last_json(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    help_text = capsys.readouterr().out
    assert all(f"\n  {verb} " in help_text for verb in VERBS)


def help_of(verb: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*verb.split(), "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


DEVICE_VERBS = {
    "fit": ["photos", "--out", "trees.safetensors", "--base", "fc100"],
    "predict": ["trees.safetensors", "photos"],
    "score": ["trees.safetensors", "photos"],
    "explain": ["trees.safetensors", "photos/oak/0.jpg", "--out", "map.png"],
    "check": ["photos", "--base", "fc100"],
    "suggest": ["trees.safetensors", "photos"],
    "demo": [],
    "pretrain": ["--data", "data", "--out", "base.safetensors", *SMALL],
    "evaluate": ["--base", "fc100", "--data", "data", "--split", "val"],
    "reproduce": ["table5", "--data", "data", "--out", "tables"],
}
"""Verbs that compute on a device of the user's choice, and what else they must be given."""


@pytest.mark.parametrize(
    "verb", [*(verb for verb in VERBS if verb != "bench"), *(f"bench {name}" for name in SUBJECTS)]
)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = help_of(verb, capsys)
    assert f"usage: implanting {verb}" in told
    assert ("--device" in told) == (verb in DEVICE_VERBS)


@pytest.mark.parametrize("verb", DEVICE_VERBS)
def test_a_device_that_is_not_there_is_refused_by_every_verb_that_offers_one(
    verb: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").symlink_to(data)
    image_folder(tmp_path)
    Path("train").rename("photos")
    before = sorted(tmp_path.rglob("*"))
    assert main([verb, *DEVICE_VERBS[verb], "--device", "cuda:7"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("implanting: --device cuda:7 cannot be used here")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("verb", ["pretrain", "evaluate", "reproduce"])
def test_help_names_every_class_list(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = help_of(verb, capsys)
    assert all(name in told for name in NAMED)


BENCHES = {
    "pretrain": (
        ["--widths", "2", "--batch-size", "8", "--steps", "1", "--memory-images", "1800"],
        "ratio",
        ["training, images/s at 32 px", "where a step's time goes", "processes and threads", "peak memory of reading"],
    ),
    "adapt": (
        [
            *("--sizes", "32", "--width", "2", "--tasks", "2", "--epochs", "1"),
            *("--memory-images", "700", "--memory-tasks", "8"),
        ],
        "over_naive",
        ["adapting 5-way 5-shot tasks, width 2", "growth", "peak memory of evaluating with implants"],
    ),
    "evaluate": (
        ["--locations", "1", "--tasks", "20", "--loop-tasks", "5"],
        "over_one_task",
        ["evaluating 20 5-way 5-shot tasks", "growth"],
    ),
    "inference": (
        ["--networks", "c128f", "--sizes", "32", "--images", "2", "--photos", "1"],
        "over_eager",
        ["classifying 2 decoded images", "classifying 1 JPEGs of 12 megapixels"],
    ),
    "classifier": (
        ["--base", "base", "--data", "data", "--shot", "2", "--tasks", "2", "--classes", "3", "--images", "6"],
        "shot",
        [
            "5 classes of 5 images",
            "6 images among 3 classes",
            "one image, from a cold start",
            "5 known and 5 unknown classes",
        ],
    ),
}
"""For each subject of a bench: flags that make it small, a figure of its rows, its tables."""


def test_bench_serve_measures_the_service(base_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base").symlink_to(base_file)
    flags = ["--base", "base", "--photos", "4", "--requests", "10", "--large", "60", "--added", "2", "--rounds", "1"]
    printed = implanting(sys.executable, "-m", "implanting", "bench", "serve", *flags, "--json").stdout
    document = json.loads(printed.splitlines()[-1])
    assert [(row["clients"], row["ratio"] > 0) for row in document["results"]] == [(1, True), (4, True), (16, True)]
    assert document["memory"]["requests"] > 0
    assert min(*document["answer"].values(), *document["adding"].values()) > 0


@pytest.mark.parametrize("subject", BENCHES)
def test_benches_tell_what_they_measured(
    subject: str,
    base_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base").symlink_to(base_file)
    Path("data").mkdir()
    write_fc100(Path("data"), classes=10, images=17, trained=1)
    flags, figure, titles = BENCHES[subject]
    command = parse(SUBJECTS[subject], f"bench {subject}", [*flags, "--rounds", "1"])
    rows, once = command()
    print_results(command, rows, once, seconds=1.0)
    printed = capsys.readouterr().out
    assert [title for title in titles if title not in printed] == []
    print_results(dataclasses.replace(command, json=True), rows, once, seconds=1.0)
    document = last_json(capsys)
    assert [row[figure] > 0 for row in document["results"]] == [True]
    assert all(kind["ratio"] > 0 for kind in document.get("growth", []))
    assert all(peak["peak"] > peak["cache"] > 0 for peak in document.get("peaks", []))


def test_a_bench_runs_as_a_user_starts_it(capsys: pytest.CaptureFixture[str]) -> None:
    flags, figure, _ = BENCHES["evaluate"]
    assert main(["bench", "evaluate", *flags, "--rounds", "1", "--threads", "1", "--json"]) == 0
    assert last_json(capsys)["results"][0][figure] > 0
    assert main(["bench"]) == 0
    assert f"{{{','.join(SUBJECTS)}}}" in capsys.readouterr().out
    assert main(["bench", "nothing"]) == 2
    assert "pretrain, adapt" in capsys.readouterr().err


def test_make_bench_runs_every_subject_that_needs_no_photos() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    assert re.search(r"^BENCHES := (.*)$", makefile, re.MULTILINE)[1].split() == [*BENCHES, "serve"]
    assert BENCHES.keys() | {"photos", "serve"} == SUBJECTS.keys()  # which have tests of their own


def test_pretrain_writes_base_log_and_curves(base: Path) -> None:
    description = load_base(base).description
    assert description.training.finished
    assert description.training.validation[-1].tasks == 5
    events = [json.loads(line)["event"] for line in base.with_suffix(".jsonl").read_text().splitlines()]
    assert events[0] == "started"
    assert events[-1] == "finished"
    with Image.open(base.with_suffix(".png")) as picture:
        assert min(picture.size) > 100


def test_pretrain_json(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["pretrain", "--data", str(data), "--out", str(tmp_path / "base.safetensors"), *SMALL]
    flatten = ["--pooling", "flatten", "--shrink-share", "0"]
    assert main([*arguments, "--hold-out", "3", *flatten, "--seed", "7", "--json"]) == 0
    document = last_json(capsys)
    assert document["seed"] == 7
    assert document["settings"]["config"]["pooling"] == "flatten"
    (row,) = document["results"]
    assert row.keys() == {"method", "way", "shot", "mean", "interval", "tasks"}
    assert 0 <= row["mean"] <= 1
    assert len(load_base(tmp_path / "base.safetensors").description.held_out) == 15


@pytest.mark.parametrize("pooling", ["gap", "gmp"])
@pytest.mark.parametrize("network", ["resnet12", "c128f"])
def test_pretrain_every_network_and_pooling(data: Path, tmp_path: Path, network: str, pooling: str) -> None:
    arguments = ["pretrain", "--data", str(data), "--out", str(tmp_path / "base.safetensors"), *SMALL, "--wide"]
    assert main([*arguments, "--network", network, "--pooling", pooling, "--recipe", "paper-fc100"]) == 0


def test_evaluate_json(base: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--way", "3", "--shot", "1", "5", "--queries", "6", "--tasks", "40", "--seed", "3"]
    assert main(["evaluate", "--base", str(base), "--data", str(data), "--split", "val", *shape, "--json"]) == 0
    rows = last_json(capsys)["results"]
    assert [(row["way"], row["shot"], row["tasks"]) for row in rows] == [(3, 1, 40), (3, 5, 40)]
    assert all(0 < row["mean"] < 1 for row in rows)


def test_evaluate_the_imagenet_base_by_name(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, colour in (("red", (220, 30, 30)), ("green", (30, 200, 40)), ("blue", (30, 40, 220))):
        (tmp_path / "test" / name).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (40 + number, 30), colour).save(tmp_path / "test" / name / f"{number}.png")
    flags = ["--split", "test", "--way", "2", "--shot", "2", "--queries", "1", "--tasks", "3", "--json"]
    flags += ["--implants", "--implant-epochs", "2", "--implant-channels", "2"]
    assert main(["evaluate", "--base", "efficientnet-lite0", "--data", str(tmp_path), *flags]) == 0
    prototypes, implants = last_json(capsys)["results"]
    assert prototypes["method"] == "prototypes (gap/gap)"
    assert prototypes["mean"] == 1
    assert implants["method"] == "implants (gap/gap)"


def test_what_the_imagenet_base_cannot_do_is_said(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["evaluate", "--base", "efficientnet-lite0", "--data", str(data), "--split", "val", "--classes", "base"])
        == 2
    )
    assert "comes without its base classes" in capsys.readouterr().err.splitlines()[-1]


def test_info_describes_the_imagenet_base(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "efficientnet-lite0", "--json"]) == 0
    assert last_json(capsys)["parameters"] == 3_371_008
    assert main(["info", "efficientnet-lite0"]) == 0
    assert "1280 at 7 x 7 locations" in capsys.readouterr().out


@pytest.fixture(scope="module")
def base_with_hold_out(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("held") / "base.safetensors"
    assert main(["pretrain", "--data", str(data), "--out", str(out), *SMALL, "--hold-out", "8"]) == 0
    return out


@pytest.mark.parametrize(("classes", "method"), [("base", "class weights (dense)"), ("both", "class weights and")])
def test_evaluate_base_and_both(
    base_with_hold_out: Path, data: Path, classes: str, method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--split", "val", "--shot", "5", "--queries", "6", "--tasks", "10", "--classes", classes, "--json"]
    assert main(["evaluate", "--base", str(base_with_hold_out), "--data", str(data), *flags]) == 0
    (row,) = last_json(capsys)["results"]
    assert row["method"].startswith(method)


IMPLANTS = ["--implants", "--implant-channels", "2", "--implant-epochs", "2"]


def test_evaluate_implants_in_views_with_a_decision(base: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--split", "val", "--way", "3", "--shot", "1", "3", "--queries", "4", "--tasks", "5"]
    flags = ["--support-views", "2", "--adapt-views", "2", "--implant-decision", "held-out", "--json"]
    assert main(["evaluate", "--base", str(base), "--data", str(data), *shape, *IMPLANTS, *flags]) == 0
    rows = last_json(capsys)["results"]
    assert [(row["method"], row["shot"], "gain" in row) for row in rows] == [
        ("prototypes (gap/dense)", 1, False),
        ("prototypes (gap/dense)", 3, False),
        ("prototypes (gap/dense, 2 views)", 1, True),
        ("prototypes (gap/dense, 2 views)", 3, True),
        ("implants (gap/dense, 2 views)", 1, True),
        ("implants (gap/dense, 2 views)", 3, True),
        ("implants where they help (gap/dense, 2 views)", 3, True),
    ]


def test_evaluate_says_that_one_view_of_one_support_trains_no_implants(
    base: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = ["--split", "val", "--way", "3", "--shot", "1", "2", "--queries", "4", "--tasks", "5"]
    assert main(["evaluate", "--base", str(base), "--data", str(data), *shape, *IMPLANTS]) == 0
    printed = capsys.readouterr()
    assert "1-shot: implants cannot be trained" in printed.err
    assert "gain, paired" in printed.out
    assert (
        main(["evaluate", "--base", str(base), "--data", str(data), "--classes", "both", "--support-views", "2"]) == 2
    )
    assert "--support-views" in capsys.readouterr().err


def test_base_and_both_need_images_that_were_not_trained_on(
    base: Path, base_with_hold_out: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(path: Path, *flags: str) -> str:
        assert main(["evaluate", "--base", str(path), "--data", str(data), "--split", "val", *flags]) == 2
        return capsys.readouterr().err.splitlines()[-1]

    assert "--hold-out 100" in said(base, "--classes", "both")
    assert "without implants" in said(base_with_hold_out, "--classes", "base", "--implants")


def test_saved_tasks_are_those_evaluated(base: Path, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "tasks.npz"
    flags = ["--split", "val", "--shot", "2", "--queries", "6", "--tasks", "7", "--save-tasks", str(file)]
    assert main(["evaluate", "--base", str(base), "--data", str(data), *flags]) == 0
    saved = np.load(file)
    expected = draw_tasks(read_dataset(data, "val"), TaskConfig(shot=2, queries=6, tasks=7))
    assert np.array_equal(saved["support_2"], expected.support)
    assert np.array_equal(saved["query_2"], expected.query)


def test_info_describes_a_base_and_the_recipes(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(base), "--json"]) == 0
    described = last_json(capsys)
    assert described["format"] == 1
    assert described["config"]["architecture"]["width"] == 2
    assert main(["info", "--recipes"]) == 0
    told = capsys.readouterr().out
    assert "paper-miniimagenet" in told
    assert main(["info", "--recipes", "--json"]) == 0
    recipes = last_json(capsys)["recipes"]
    assert recipes["cpu"]["config"]["architecture"]["width"] == 32
    assert all(recipe["about"].splitlines()[0] in told for recipe in recipes.values())


def empty_class(folder: Path) -> None:
    image_folder(folder)
    (folder / "train" / "empty").mkdir()


def truncated_jpeg(folder: Path) -> None:
    image_folder(folder)
    picture = folder / "train" / "oak" / "0.jpg"
    picture.write_bytes(picture.read_bytes()[:200])


def text_as_png(folder: Path) -> None:
    image_folder(folder)
    (folder / "train" / "oak" / "note.png").write_text("not an image")


def one_image(folder: Path) -> None:
    image_folder(folder)
    for number in range(1, 4):
        (folder / "train" / "oak" / f"{number}.jpg").unlink()


def shared_class(folder: Path) -> None:
    image_folder(folder)
    shutil.copytree(folder / "train" / "oak", folder / "val" / "oak")


def foreign_pickle(folder: Path) -> None:
    folder.mkdir()
    (folder / "FC100_train.pickle").write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")


def missing_files(folder: Path) -> None:
    folder.mkdir()
    (folder / "train.csv").write_text("filename,label\ngone.jpg,oak\n")


def too_small(folder: Path) -> None:
    image_folder(folder, size=12)


def image_folder(folder: Path, size: int = 32) -> None:
    for number, name in enumerate(("oak", "ash")):
        (folder / "train" / name).mkdir(parents=True)
        for image in range(4):
            Image.new("RGB", (size, size), (80 * number, 10 * image, 0)).save(folder / "train" / name / f"{image}.jpg")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: None, "does not exist"),
        (empty_class, "empty"),
        (truncated_jpeg, "0.jpg"),
        (text_as_png, "note.png"),
        (one_image, "'oak' has 1 image"),
        (shared_class, "'oak'"),
        (foreign_pickle, "os.system"),
        (missing_files, "gone.jpg"),
        (too_small, "12 x 12 px"),
    ],
)
def test_bad_data_is_one_clear_line(
    spoil: Callable[[Path], None],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    spoil(tmp_path / "data")
    assert main(["pretrain", "--data", "data", "--out", "base.safetensors", *SMALL]) == 2
    said_last = capsys.readouterr().err.splitlines()[-1]
    assert said_last.startswith("implanting: ")
    assert said in said_last
    assert [path.name for path in tmp_path.iterdir() if path.name != "data"] == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--recipe", "none"], "paper-fc100"),
        (["--epochs", "1", "--iterations", "2"], "not both"),
        (["--width", "0"], "--width"),
        (["--crop-padding", "40"], "--crop-padding"),
        (["--pooling", "flatten"], "--shrink-share to 0"),
        (["--workers", "0"], "--workers is 0"),
        (["--hold-out", "24"], "holding out 24"),
        (["--device", "cuda:7"], "--device cuda:7"),
        (["--image-size", "8"], "8 x 8 px"),
    ],
)
def test_bad_settings_are_one_clear_line(
    data: Path, tmp_path: Path, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "base.safetensors"
    assert main(["pretrain", "--data", str(data), "--out", str(out), *flags]) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_bad_checkpoints_are_one_clear_line(
    base: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truncated, foreign, newer = (tmp_path / name for name in ("truncated", "foreign", "newer"))
    truncated.write_bytes(base.read_bytes()[:-100])
    save_file({"weight": zeros(2)}, foreign)
    save_file({"weight": zeros(2)}, newer, metadata={"implanting": '{"format": 99, "kind": "base"}'})
    for path, said in {truncated: "truncated", foreign: "not one of implanting", newer: "99"}.items():
        assert main(["evaluate", "--base", str(path), "--data", str(data), "--split", "val"]) == 2
        line = capsys.readouterr().err.splitlines()[-1]
        assert str(path) in line
        assert said in line


def test_unknown_verbs_and_flags_end_with_status_2() -> None:
    assert "guess" in implanting(sys.executable, "-m", "implanting", "guess", status=2).stderr
    implanting(sys.executable, "-m", "implanting", "pretrain", "--colour", status=2)


def test_the_demo_prints_its_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["demo", "--tasks", "8", "--json", "--heat-map", str(tmp_path / "map.png")]) == 0
    assert (tmp_path / "map.png").stat().st_size > 1000
    rows = last_json(capsys)["results"]
    assert [row["shot"] for row in rows] == [1, 5, 10, 1, 5, 10, 5, 10]
    assert all(row["mean"] > 0.3 for row in rows)  # chance is 0.2


def test_networks_are_joined_and_tested(data, base, tmp_path, capsys):
    out = tmp_path / "both.safetensors"
    assert main(["join", str(base), "--data", str(data), "--out", str(out)]) == 2
    assert "give two or more" in capsys.readouterr().err
    assert main(["join", str(base), str(base), "--data", str(data), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "2 x resnet12" in shown
    assert "validation classes" in shown
    assert main(["join", str(base), str(base), "--data", str(data), "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
    whole = out.stat().st_size
    assert main(["join", str(base), str(base), "--data", str(data), "--out", str(out), "--half", "--overwrite"]) == 0
    assert out.stat().st_size < 0.75 * whole


def test_one_network_learns_what_its_base_images_have_in_common(data, base, tmp_path, capsys):
    out = tmp_path / "gem.safetensors"
    assert main(["join", str(base), "--data", str(data), "--gem", "--out", str(out)]) == 0
    tested = ["evaluate", "--base", str(out), "--data", str(data), "--split", "val", "--way", "3", "--shot", "2"]
    assert main([*tested, "--queries", "3", "--tasks", "4"]) == 0
    assert "gem-centred/gem-centred" in capsys.readouterr().out
    centring = ["--support-pooling", "gem-centred", "--query-pooling", "gem-centred"]
    plain = ["evaluate", "--base", str(base), *tested[3:], "--queries", "3", "--tasks", "4"]
    assert main([*plain, *centring]) == 2
    assert "`implanting join` with --gem" in capsys.readouterr().err
    assert main(["join", str(out), str(base), "--data", str(data), "--out", str(tmp_path / "both.safetensors")]) == 0
    assert "gem-centred" in capsys.readouterr().out  # kept without being asked for
    assert main([*plain, *centring[:2]]) == 2
    assert "pools supports and queries alike" in capsys.readouterr().err
