import math

import numpy as np
import pytest

from implanting.config import TaskConfig
from implanting.errors import ConfigError
from implanting.fewshot import Estimate, Result, Share, mean_of


def test_interval_formula():
    values = [0.5, 0.7, 0.9, 0.3]
    mean = sum(values) / 4
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / 3)
    estimate = Estimate.of(np.array(values))
    assert estimate.mean == pytest.approx(mean)
    assert estimate.interval == pytest.approx(1.96 * deviation / 2)
    assert estimate.tasks == 4
    assert str(estimate) == "60.00 ± 25.30"


def test_one_task_has_no_interval():
    estimate = Estimate.of(np.array([0.5]))
    assert math.isnan(estimate.interval)
    assert estimate.known_interval is None
    assert (str(estimate), estimate.signed()) == ("50.00", "+50.00")
    assert mean_of(1) == "1 task"
    assert mean_of(2, "5-way task") == "mean of 2 5-way tasks ± 95 % interval over the sampling of tasks"


def test_the_interval_covers_the_truth_at_its_rate():
    accuracies = np.random.default_rng(0).binomial(150, 0.6, size=(2000, 100)) / 150
    estimates = [Estimate.of(row) for row in accuracies]
    covered = np.mean([abs(estimate.mean - 0.6) <= estimate.interval for estimate in estimates])
    assert 0.935 < covered < 0.96


def result(per_task: list[float], images: str = "one set", **changes: int) -> Result:
    return Result("toy", TaskConfig(tasks=len(per_task), **changes), images, np.array(per_task), np.eye(2, dtype=int))


def test_gain_is_the_paired_difference():
    ours, theirs = result([0.9, 0.5, 0.7]), result([0.8, 0.4, 0.6])
    gain = ours.gain_over(theirs)
    assert gain.mean == pytest.approx(0.1)
    assert gain.interval == pytest.approx(0, abs=1e-12)  # each task gains the same, though tasks differ much
    assert (ours.mean, ours.interval) == (ours.estimate.mean, ours.estimate.interval)
    assert ours.interval > 0.2


def test_gain_is_over_the_tasks_that_both_have_seen():
    gain = result([0.9, 0.5, 0.7, 0.1]).gain_over(result([0.8, 0.4, 0.6]))
    assert gain.mean == pytest.approx(0.1)
    assert gain.tasks == 3


OTHERS = [result([0.5] * 3, seed=1), result([0.5] * 3, shot=1), result([0.5] * 3, "another set")]


@pytest.mark.parametrize("other", OTHERS)
def test_gain_over_other_tasks_is_refused(other):
    with pytest.raises(ConfigError, match="same tasks"):
        result([0.5] * 3).gain_over(other)


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
