"""Progress where no terminal shows it, and tables."""

import time

from implanting.console import print_table, show_progress


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
