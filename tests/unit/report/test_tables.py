import dataclasses

import numpy as np

from implanting.report import Score
from implanting.report.tables import MATRIX_LIMIT, confusion, per_class_table
from toy_report import HOSTILE, Page


def test_the_matrix_has_a_row_a_class_and_none_of_these_where_it_occurs(report):
    (rows,) = Page(confusion(report)[1]).tables
    assert rows == [
        ["", "oak", HOSTILE, "elm", "none of these"],
        ["oak", "1", "1", "", ""],
        [HOSTILE, "", "2", "", ""],
        ["elm", "1", "", "", "1"],
        ["none of these", "", "", "", "1"],
    ]


def test_none_of_these_is_left_out_where_it_does_not_occur(report):
    score = Score(("oak", "elm"), np.array([0, 1]), np.array([0, 0]))
    (rows,) = Page(confusion(dataclasses.replace(report, score=score))[1]).tables
    assert rows == [["", "oak", "elm"], ["oak", "1", ""], ["elm", "1", ""]]


def test_the_shade_is_the_share_of_the_row(report):
    cells = [attributes for attributes in Page(confusion(report)[1]).named("td") if attributes]
    assert [(cell["class"], cell["style"]) for cell in cells] == [
        ("hit", "--share:0.50"),
        ("miss", "--share:0.50"),
        ("hit", "--share:1.00"),
        ("miss", "--share:0.50"),
        ("miss", "--share:0.50"),
        ("hit", "--share:1.00"),
    ]


def test_of_many_classes_the_commonest_confusions_are_listed(report):
    names = tuple(f"class {number}" for number in range(MATRIX_LIMIT + 1))
    score = Score(names, np.array([3, 3, 5, 6]), np.array([4, 4, 0, 6]))
    note, table = confusion(dataclasses.replace(report, score=score))
    assert str(MATRIX_LIMIT + 1) in note
    (rows,) = Page(table).tables
    assert rows[1:] == [["class 3", "class 4", "2"], ["class 5", "class 0", "1"]]


def test_each_class_has_its_share_its_interval_and_its_commonest_mistake(report):
    (rows,) = Page(per_class_table(report)).tables
    assert rows[1:] == [
        ["oak", "1 of 2", "50.0", "9 to 91", "", f"{HOSTILE} (1)"],
        [HOSTILE, "2 of 2", "100.0", "34 to 100", "", ""],
        ["elm", "0 of 2", "0.0", "0 to 66", "", "oak (1)"],
        ["none of these", "1 of 1", "100.0", "21 to 100", "", ""],
    ]
