"""Progress where no terminal shows it, tables, and names that would command a terminal or a spreadsheet."""

import csv
import io
import time

import pytest

from implanting.console import cell, plain, print_table, print_text, say, show_progress


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


def test_names_are_left_whole_where_no_terminal_limits_them(capsys):
    name = "photos/" + "a very long name " * 20
    print_table("doubts", ["photo", "class", "looks like"], [[name, "oak", "elm 0.93"]])
    assert f"│ {name}" in capsys.readouterr().out


def test_figures_are_aligned_at_the_right_and_names_at_the_left(capsys):
    print_table("", ["", "1-shot", "5-shot"], [["dense", "7.5 ± 0.1", "9"], ["gap", "10.0", "11.5"]])
    assert "│ dense │ 7.5 ± 0.1 │      9 │\n│ gap   │      10.0 │   11.5 │" in capsys.readouterr().out
    print_table("", ["photo", "class", "looks like"], [["a.jpg", "3.elm", "oak"], ["b.jpg", "4.", "b"]], figures=False)
    assert "│ a.jpg │ 3.elm │ oak        │\n│ b.jpg │ 4.    │ b          │" in capsys.readouterr().out
    print_table("", ["class", "images"], [["oak", "8"], ["elm", "12"]])
    assert "│ oak   │      8 │\n│ elm   │     12 │" in capsys.readouterr().out
    print_table("", ["class", "right"], [["oak", "9.0 % (8.1 to 9.7)"], ["elm", "10.0 %"]])
    assert "│ oak   │ 9.0 % (8.1 to 9.7) │\n│ elm   │ 10.0 %             │" in capsys.readouterr().out


RED = "\x1b[31mrose\x1b[0m"


def test_control_characters_are_shown_and_not_obeyed():
    assert plain(RED) == "\\x1b[31mrose\\x1b[0m"
    assert plain("a\r\nb\x9b\u202e\x7f\udcff") == "a\\r\\nb\\x9b\\u202e\\x7f\\xff"
    kept = "h\u00eatre \u6a2b\u00a0\U0001f468\u200d\U0001f33e"
    assert plain(kept) == kept


@pytest.mark.parametrize("show", [say, print_text, lambda text: print_table(text, [text, "b"], [[text, "1"]], text)])
def test_whatever_is_printed_shows_them(show, capsys):
    show(f"first\n{RED}")
    shown = "".join(capsys.readouterr())
    assert "\x1b" not in shown
    assert "first\n" in shown or "first " in shown
    assert "\\x1b[31mrose" in shown


def test_a_cell_is_no_formula():
    for text in ("=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "=cmd|' /C calc'!A0", "  =1"):
        ((shown,),) = csv.reader(io.StringIO(cell(text)))
        assert shown.startswith(("'", "\\t")), text
    assert [cell(text) for text in ("-1", "+2.5", "1e-3", "oak", "a=b")] == ["-1", "+2.5", "1e-3", "oak", "a=b"]
    assert cell("a\nb") == "a\\nb"
