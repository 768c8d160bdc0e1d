"""Ray Data with two actors on this machine: the answers of `predict`, bad files as rows, an actor that is killed."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from implanting.classifier.estimator import FewShotClassifier
from implanting.cli import main
from implanting.ray import classify
from toys import coloured

SHADES = coloured(classes=3, per_class=8, size=32, seed=1, prefix="shade")
IMAGES = 160

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray warns of its own deprecated settings when it is imported


@pytest.fixture(scope="module")
def local_ray() -> Iterator[Any]:
    """Two processors; Ray's own messages are not ours to judge."""
    os.environ.update(RAY_DATA_DISABLE_PROGRESS_BARS="1", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
    import ray
    import ray.data

    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def trees(base_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trees") / "trees.safetensors"
    labels = [f"class {label}" for label in SHADES.labels.tolist()]
    FewShotClassifier(base_file, implants=False).fit(SHADES.images.numpy(), labels).save(out)
    return out


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Large enough to take a while, most of them one file by other names; one is damaged."""
    album = tmp_path_factory.mktemp("album")
    for number in range(6):
        picture = Image.fromarray(SHADES.images[number].numpy()).resize((900, 900), Image.Resampling.BICUBIC)
        picture.save(album / f"{number:03}.png")
    for number in range(6, IMAGES):
        os.link(album / f"{number % 6:03}.png", album / f"{number:03}.png")
    (album / "bad.png").write_bytes((album / "000.png").read_bytes()[:500])
    return album


def by_predict(trees: Path, album: Path, said: pytest.CaptureFixture[str]) -> dict[str, dict]:
    assert main(["predict", str(trees), str(album), "--jsonl"]) == 0
    rows = [json.loads(line) for line in said.readouterr().out.splitlines()]
    return {row["image"]: row for row in rows}


def test_actors_answer_as_predict_does_and_a_killed_one_loses_and_doubles_nothing(
    local_ray, trees, album, capfd, monkeypatch
):
    monkeypatch.setattr("implanting.ray.IMAGES_PER_BLOCK", 8)
    answers = classify(album, trees, actors=2)
    rows, killed = [], None
    for batch in answers.iter_batches(batch_size=8, batch_format="pyarrow", prefetch_batches=0):
        rows += batch.to_pylist()
        if killed is None:
            killed = actors_of(os.getpid())[0]
            os.kill(killed, signal.SIGKILL)
    assert killed is not None
    assert len(rows) == len({row["image"] for row in rows}) == IMAGES + 1
    capfd.readouterr()
    expected = by_predict(trees, album, capfd)
    assert {row["image"]: row["class"] for row in rows} == {name: row["class"] for name, row in expected.items()}
    for row in rows:
        alike = expected[row["image"]]
        assert row["error"] == alike["error"]
        if row["error"] is None:
            assert row["likeliest_probability"] == pytest.approx(alike["likeliest_probability"], abs=1e-5)
    (bad,) = (row for row in rows if row["error"])
    assert Path(bad["image"]).name == "bad.png"


def actors_of(driver: int, deadline: float = 60) -> list[int]:
    """The processes in which Ray's actors of this driver run."""
    until = time.monotonic() + deadline
    while time.monotonic() < until:
        parents, names = {}, {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                names[int(folder.name)] = (folder / "cmdline").read_bytes()
            except (OSError, ProcessLookupError):
                continue
        found = [pid for pid, name in names.items() if b"MapWorker" in name and driver in ancestors(pid, parents)]
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("no actor was seen")


def ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    chain = []
    while pid in parents and parents[pid] not in (0, 1):
        pid = parents[pid]
        chain.append(pid)
    return chain


def test_a_data_set_of_bytes(local_ray, trees, album):
    paths = [str(album / name) for name in ("000.png", "001.png", "bad.png")]
    read = local_ray.data.read_binary_files(paths, include_paths=True)
    rows = sorted(classify(read, trees, actors=1).take_all(), key=lambda row: row["image"])
    assert [Path(row["image"]).name for row in rows] == ["000.png", "001.png", "bad.png"]
    assert [row["error"] is None for row in rows] == [True, True, False]
    given = FewShotClassifier.load(trees).predict_proba(paths[:2]).max(1)
    assert np.allclose([row["likeliest_probability"] for row in rows[:2]], given, atol=1e-5)
