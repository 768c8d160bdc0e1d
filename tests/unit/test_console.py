"""Results in words, as far as their rows tell, and progress where no terminal shows it."""

import time

import pytest

from implanting.console import describe, print_table, show_progress


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            {"mean": 0.4711, "interval": 0.007, "way": 5, "shot": 1, "tasks": 500},
            "47.11 ± 0.70 % (5-way 1-shot, 500 tasks)",
        ),
        ({"mean": 0.4711, "interval": None, "way": 5, "shot": 1, "tasks": 1}, "47.11 % (5-way 1-shot, 1 task)"),
        ({"mean": 0.4711, "interval": 0.007, "tasks": 500}, "47.11 ± 0.70 % (500 tasks)"),
        ({"mean": 0.4711}, "47.11 %"),
    ],
)
def test_describe(row, words):
    assert describe(row) == words


def test_progress_without_a_terminal_is_a_line_now_and_then(capsys, monkeypatch):
    moments = iter([0.0, 0.0, 10.0, 20.0, 30.0])  # the start, then one for each item
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    assert list(show_progress("abcd", "reading", 4)) == list("abcd")
    assert capsys.readouterr().err == "reading: 2 of 4, 0.3 min left\n"


def test_progress_of_quick_work_is_silent(capsys):
    assert list(show_progress(range(1000), "reading", 1000)) == list(range(1000))
    assert capsys.readouterr().err == ""


def test_a_title_is_not_cut_to_the_width_of_its_table(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    title = "base.safetensors on FC100 val, 5-way tasks of its 20 classes"
    print_table(title, ["", "1-shot"], [["prototypes", "40.00"]])
    assert capsys.readouterr().out.splitlines()[0] == title
