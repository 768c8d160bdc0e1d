import numpy as np

from implanting.report import NONE, Score, telling

CLASSES = ("oak", "elm", "ash")


def score(truth, answers) -> Score:
    return Score(CLASSES, np.array(truth), np.array(answers))


def test_confusion_counts_every_pair():
    given = score([0, 0, 1, 2, NONE, 2], [0, 1, 1, NONE, NONE, 0])
    expected = np.zeros((4, 4), int)
    for truth, answer in zip(given.truth, given.answers, strict=True):
        expected[truth, answer] += 1
    np.testing.assert_array_equal(given.confusion, expected)
    assert given.accuracy == (3, 6)
    assert given.per_class == [(1, 2), (1, 1), (0, 2), (1, 1)]


def test_the_commonest_confusions_come_first_and_right_answers_are_none():
    given = score([0, 0, 0, 1, 1, 1, 1], [1, 1, 2, 1, 1, 1, 0])
    assert given.confusions(2) == [(0, 1, 2), (0, 2, 1)]
    assert len(given.confusions(9)) == 3
    assert score([0, 1], [0, 1]).confusions(9) == []


def test_the_row_is_a_fraction_with_its_interval():
    row = score([0, 1, 1, 1], [0, 1, 1, 0]).row()
    assert row["mean"] == 0.75
    assert row["low"] < 0.75 < row["high"]
    assert row["images"] == 4


def test_the_surest_wrong_answers_and_the_surest_right_of_each_class_in_turn():
    truth, answers = [0, 0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 1, 0, 1]
    confidence = np.array([0.9, 0.8, 0.5, 0.3, 0.7, 0.6, 0.95])
    right, wrong = telling(score(truth, answers), confidence, 3)
    assert wrong == [6, 5, 2]
    assert right == [0, 4, 1]
