import json

import pytest
from PIL import Image

from implanting.pretraining import TrainingLog, plot_training
from implanting.pretraining.training_log import read_log


def step(number: int) -> dict:
    return {"event": "step", "step": number, "loss": 1 / number, "accuracy": 0.5}


@pytest.fixture
def log(tmp_path):
    """The log of a run that was killed after step 4."""
    path = tmp_path / "log.jsonl"
    notes = TrainingLog(path)
    for event in ({"event": "started", "step": 0}, *map(step, range(1, 5))):
        notes(event)
    return path


def steps(path) -> list[int]:
    return [event["step"] for event in read_log(path) if event["event"] == "step"]


def test_events_are_read_as_they_were_noted(log):
    assert read_log(log) == [{"event": "started", "step": 0}, *map(step, range(1, 5))]


def test_a_resumed_run_drops_what_came_after_its_checkpoint(log):
    notes = TrainingLog(log)
    notes({"event": "started", "step": 2})
    notes(step(3))
    assert steps(log) == [1, 2, 3]


def test_a_fresh_run_drops_everything(log):
    notes = TrainingLog(log)
    notes({"event": "started", "step": 0})
    notes(step(1))
    assert steps(log) == [1]


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_last_line_cut_short_is_passed_over(log, cut):
    with log.open("a") as file:
        file.write(json.dumps(step(5))[:-cut])
    assert steps(log) == [1, 2, 3, 4]
    notes = TrainingLog(log)
    notes({"event": "started", "step": 4})
    notes(step(5))
    assert steps(log) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("validated", [False, True])
def test_the_plot_is_a_picture(log, tmp_path, validated):
    if validated:
        record = {"event": "validation", "step": 4, "mean": 0.6, "interval": 0.01, "tasks": 500}
        TrainingLog(log)(record)
    plot_training(log, tmp_path / "curves.png")
    with Image.open(tmp_path / "curves.png") as picture:
        assert picture.format == "PNG"
        assert picture.size == (1200, 432)
        assert len(picture.convert("RGB").getcolors(2**20)) > 2
