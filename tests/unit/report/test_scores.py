import math

import numpy as np
import pytest

from implanting.report import NONE, Score, Share, telling

CLASSES = ("oak", "elm", "ash")


def score(truth, answers) -> Score:
    return Score(CLASSES, np.array(truth), np.array(answers))


@pytest.mark.parametrize(("right", "total"), [(0, 10), (1, 10), (5, 10), (81, 263), (10, 10)])
def test_the_ends_of_wilsons_interval_are_shares_that_the_observed_just_does_not_refute(right, total):
    share = Share(right, total)
    for end in share.interval:
        error = math.sqrt(end * (1 - end) / total)
        assert abs(share.mean - end) == pytest.approx(1.96 * error, rel=1e-3, abs=1e-6)
    assert share.interval[0] <= share.mean <= share.interval[1]


def test_the_interval_covers_as_often_as_it_says():
    generator = np.random.default_rng(0)
    truths = generator.uniform(0.1, 0.9, 4000)
    intervals = [Share(int(generator.binomial(40, truth)), 40).interval for truth in truths]
    covered = [low <= truth <= high for truth, (low, high) in zip(truths, intervals, strict=True)]
    assert 0.94 < np.mean(covered) < 0.96


def test_nothing_of_nothing_may_be_any_share():
    assert Share(0, 0).interval == (0, 1)
    assert math.isnan(Share(0, 0).mean)


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
