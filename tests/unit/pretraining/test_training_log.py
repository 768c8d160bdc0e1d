import json
from pathlib import Path

import pytest
from PIL import Image

from implanting.base import Validation
from implanting.pretraining import Event, Finished, Started, Stepped, Stopped, TrainingLog, plot_training
from implanting.pretraining.events import event_document, event_from_document
from implanting.pretraining.training_log import read_log

BEFORE = """\
{"event": "started", "step": 0, "steps": 50, "images": 36000}
{"event": "step", "step": 1, "epoch": 0.5, "loss": 4.8, "accuracy": 0.25, "tau": 9.5, "learning_rate": 0.005, \
"images_per_second": 65.0, "seconds_left": 48.0}
{"event": "validation", "step": 1, "method": "prototypes (gap/dense)", "way": 5, "shot": 5, "mean": 0.32, \
"interval": 0.02, "tasks": 50}
{"event": "stopped", "step": 1, "seconds": 31.5}
"""
"""A log as version 0.1.0 wrote it."""


def step(number: int) -> Stepped:
    return Stepped(number, number / 10, 1 / number, 0.5, 10.0, 0.1, 100.0, 3.0)


@pytest.fixture
def log(tmp_path):
    """The log of a run that was killed after step 4."""
    path = tmp_path / "log.jsonl"
    notes = TrainingLog(path)
    for event in (Started(0, 9, 24), *map(step, range(1, 5))):
        notes(event)
    return path


def steps(path: Path) -> list[int]:
    return [event.step for event in read_log(path) if isinstance(event, Stepped)]


def test_events_are_read_as_they_were_noted(log):
    assert read_log(log) == [Started(0, 9, 24), *map(step, range(1, 5))]


def test_a_log_of_an_earlier_version_is_read_and_gone_on_with(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(BEFORE)
    expected = [
        Started(0, 50, 36000),
        Stepped(1, 0.5, 4.8, 0.25, 9.5, 0.005, 65.0, 48.0),
        Validation(1, "prototypes (gap/dense)", 5, 5, 0.32, 0.02, 50),
        Stopped(1, 31.5),
    ]
    assert read_log(path) == expected
    plot_training(path, tmp_path / "curves.png")
    TrainingLog(path)(Started(1, 50, 36000))
    assert read_log(path) == [*expected, Started(1, 50, 36000)]
    assert [json.loads(line) for line in path.read_text().splitlines()[1:4]] == [
        json.loads(line) for line in BEFORE.splitlines()[1:]
    ]


@pytest.mark.parametrize(
    "event",
    [
        Started(0, 9, 24, "too few"),
        step(3),
        Validation(3, "prototypes", 5, 5, 0.5, None, 1),
        Stopped(3, 1.5),
        Finished(9, 2.5),
    ],
)
def test_every_event_survives_json(event: Event):
    assert event_from_document(json.loads(json.dumps(event_document(event)))) == event


def test_a_resumed_run_drops_what_came_after_its_checkpoint(log):
    notes = TrainingLog(log)
    notes(Started(2, 9, 24))
    notes(step(3))
    assert steps(log) == [1, 2, 3]


def test_a_fresh_run_drops_everything(log):
    notes = TrainingLog(log)
    notes(Started(0, 9, 24))
    notes(step(1))
    assert steps(log) == [1]


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_last_line_cut_short_is_passed_over(log, cut):
    with log.open("a") as file:
        file.write(json.dumps(event_document(step(5)))[:-cut])
    assert steps(log) == [1, 2, 3, 4]
    notes = TrainingLog(log)
    notes(Started(4, 9, 24))
    notes(step(5))
    assert steps(log) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("interval", [0.01, None])
@pytest.mark.parametrize("validated", [False, True])
def test_the_plot_is_a_picture(log, tmp_path, validated, interval):
    if validated:
        TrainingLog(log)(Validation(4, "prototypes", 5, 5, 0.6, interval, 500))
    plot_training(log, tmp_path / "curves.png")
    with Image.open(tmp_path / "curves.png") as picture:
        assert picture.format == "PNG"
        assert picture.size == (1200, 432)
        assert len(picture.convert("RGB").getcolors(2**20)) > 2
