"""Results in words, as far as their rows tell."""

import pytest

from implanting.console import describe


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            {"mean": 0.4711, "interval": 0.007, "way": 5, "shot": 1, "tasks": 500},
            "47.11 ± 0.70 % (5-way 1-shot, 500 tasks)",
        ),
        ({"mean": 0.4711, "interval": None, "way": 5, "shot": 1, "tasks": 1}, "47.11 % (5-way 1-shot, 1 tasks)"),
        ({"mean": 0.4711, "interval": 0.007, "tasks": 500}, "47.11 ± 0.70 % (500 tasks)"),
        ({"mean": 0.4711}, "47.11 %"),
    ],
)
def test_describe(row, words):
    assert describe(row) == words
