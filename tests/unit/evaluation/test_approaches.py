"""What a number of shots gets of what was asked for."""

from dataclasses import replace

import pytest

from implanting.config import ImplantConfig, InferenceConfig
from implanting.errors import ConfigError
from implanting.evaluation import Approach

PLAIN = InferenceConfig()
ALWAYS, HELD_OUT = ImplantConfig(), ImplantConfig(implant_decision="held-out")


@pytest.mark.parametrize(
    ("asked", "shot", "given"),
    [
        (None, 1, None),
        (ALWAYS, 1, None),
        (HELD_OUT, 1, None),
        (ALWAYS, 2, ALWAYS),
        (HELD_OUT, 2, ALWAYS),
        (HELD_OUT, 3, HELD_OUT),
        (replace(HELD_OUT, adapt_views=2), 1, replace(ALWAYS, adapt_views=2)),
        (replace(HELD_OUT, adapt_views=2), 2, replace(HELD_OUT, adapt_views=2)),
    ],
)
def test_too_few_shots_get_less_than_was_asked_for(asked, shot, given):
    approach = Approach(PLAIN, asked)
    assert approach.reduced_to(shot) == Approach(PLAIN, given)
    assert approach.works_with(shot) == (asked == given)


@pytest.mark.parametrize(
    ("shot", "views", "folds", "possible"),
    [
        (1, 6, 5, False),
        (2, 1, 5, False),
        (2, 2, 5, True),
        (3, 1, 5, True),
        (3, 1, 2, False),
        (4, 1, 2, True),
        (9, 1, 5, True),
    ],
)
def test_a_decision_needs_enough_supports_beside_those_held_out(shot, views, folds, possible):
    config = ImplantConfig(adapt_views=views, decision_folds=folds, implant_decision="held-out")
    assert Approach(PLAIN, config).reduced_to(shot).decides == possible


@pytest.mark.parametrize("classes", ["base", "both"])
def test_base_classes_are_told_apart_without_implants_and_views(classes):
    assert Approach(PLAIN, None, classes).works_with(1)
    with pytest.raises(ConfigError, match=f"{classes} is defined without implants"):
        Approach(PLAIN, ALWAYS, classes)
    with pytest.raises(ConfigError, match=f"{classes} is defined without views"):
        Approach(InferenceConfig(support_views=2), None, classes)
