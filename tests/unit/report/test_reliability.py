import numpy as np
import pytest

from implanting.fewshot import Share
from implanting.report.reliability import bins_of, curve, note
from toy_report import Page

SURE = np.array([0.95, 0.91, 1.0, 0.52, 0.58])
RIGHT = np.array([True, True, False, True, False])


def test_answers_are_counted_by_tenths_of_their_probability():
    low, high = bins_of(SURE, RIGHT)
    assert (low.share, high.share) == (Share(1, 2), Share(2, 3))
    assert low.probability == pytest.approx(0.55)
    assert high.probability == pytest.approx((0.95 + 0.91 + 1) / 3)


def test_the_drawing_has_a_point_per_tenth_and_closes_its_tags():
    drawn = Page(curve(bins_of(SURE, RIGHT)))
    assert drawn.open == []
    assert len(drawn.named("circle")) == 2


def test_the_mean_distance_is_the_calibration_error():
    gap = (2 * abs(0.5 - 0.55) + 3 * abs(2 / 3 - 2.86 / 3)) / 5
    assert f"{100 * gap:.1f} points" in note(bins_of(SURE, RIGHT))
