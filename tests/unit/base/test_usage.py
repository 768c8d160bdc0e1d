"""How base networks are used where the user does not say."""

import math

import numpy as np
import pytest
import torch

from implanting.base import load_base
from implanting.base.base_network import HeadDefaults, UsageDefaults
from toys import toy_base


def test_advice_for_networks_that_stage_1_trained():
    usage = toy_base().usage
    assert (usage.implants_from_shots, usage.implants_beat_head, usage.support_views(1)) == (2, True, 1)


@pytest.mark.parametrize("name", ["miniimagenet", "fc100"])
def test_larger_images_and_pooled_networks_are_answered_by_a_head(name):
    usage = load_base(name).usage
    assert (usage.implants_from_shots, usage.implants_beat_head) == (20, False)


def test_advice_for_the_imagenet_base():
    usage = load_base("efficientnet-lite0").usage
    assert usage.implants_from_shots == 5
    assert [usage.support_views(shots) for shots in (1, 2, 3, 5)] == [6, 6, 1, 1]
    assert set(usage.calibrations) == {1, 2}


def test_two_side_by_side_weigh_the_readings_of_each_as_of_one():
    alone, pair = (load_base(name) for name in ("efficientnet-lite0", "lite0+lite2"))
    for one, two in zip(alone.usage.head.reading_weights, pair.usage.head.reading_weights, strict=True):
        assert two == (*one, *one)
    assert len(pair.reading_dims) == len(pair.usage.head.reading_weights[0])


def rooted(prominence: float, temperature: float) -> torch.Tensor:
    """Roots of probabilities of 1000 classes whose largest logit has this prominence."""
    spread = torch.linspace(-1, 1, 999, dtype=torch.float64)
    low, high = 1.0, 1e3
    for _ in range(60):
        logits = torch.cat([torch.tensor([(low + high) / 2]), spread])
        found = (logits[0] - logits.mean()) / logits.std()
        low, high = ((low + high) / 2, high) if found < prominence else (low, (low + high) / 2)
    return (logits / temperature).softmax(0).sqrt().float()


@pytest.mark.parametrize("temperature", [0.5, 2.0])  # the scale of logits varies with the size of images
@pytest.mark.parametrize(
    ("prominence", "weight"), [(9.0, 1.0), (6.4, 1.0), (5.8, math.sqrt(5)), (5.2, 5.0), (3.0, 5.0)]
)
@pytest.mark.parametrize("name", ["efficientnet-lite0", "lite0+lite2"])
def test_the_less_a_base_recognises_the_supports_the_more_its_middle_counts(name, prominence, weight, temperature):
    base = load_base(name)
    parts = [torch.rand(3, dim) for dim in base.reading_dims]
    for place in range(2, len(parts), 4):
        parts[place] = rooted(prominence, temperature).expand(3, -1)
    rule, *others = base.usage.head.weights_for(torch.cat(parts, dim=1), base.reading_dims)
    usual = base.usage.head.reading_weights
    expected = [weight if place % 4 == 3 else usual[0][place] for place in range(len(parts))]
    assert rule == pytest.approx(expected, rel=0.01)
    assert tuple(others) == usual[1:]


def test_an_image_without_any_prediction_is_not_recognised():
    base = load_base("efficientnet-lite0")
    vectors = torch.full((2, sum(base.reading_dims)), 0.03)
    assert base.usage.head.unrecognised(vectors, base.reading_dims) == 1


@pytest.mark.parametrize(
    ("way", "unrecognised", "expected"),
    [(2, 0.0, -1), (3, 0.0, -1), (10, 0.0, -2), (1000, 0.0, -2), (10, 1.0, -6), (3, 0.5, -3), (5, 0.0, -1.4243)],
)
def test_scores_of_known_images_are_interpolated_between_the_tasks_they_were_measured_on(way, unrecognised, expected):
    by_task = {"recognised": {"3": [-1.0], "10": [-2.0]}, "unrecognised": {"3": [-5.0], "10": [-6.0]}}
    stored = {"power": 3.0, "by_task": by_task}
    given = HeadDefaults(calibrations={1: stored}).calibrations_for(way, unrecognised)
    assert given[1]["known"] == [pytest.approx(expected, abs=1e-4)]
    assert given[1]["power"] == 3.0


def test_with_one_image_per_class_photos_of_few_classes_score_highest():
    head = load_base("efficientnet-lite0").usage.head
    three, ten, drawn = (
        np.median(head.calibrations_for(way, share)[1]["known"]) for way, share in ((3, 0.0), (10, 0.0), (10, 1.0))
    )
    assert three > ten > drawn


def test_a_larger_tau_is_undone_by_smaller_powers():
    usage = UsageDefaults(calibrations={1: {"power": 3.0, "cut": 0.5}, 2: {"power": 1.0, "cut": 0.1}}).for_scaled_tau(
        2.0
    )
    assert usage.calibrations == {1: {"power": 1.5, "cut": 0.5}, 2: {"power": 0.5, "cut": 0.1}}
    base = load_base("efficientnet-lite0")
    stored = base.usage.calibrations[1]["power"]
    assert base.with_tau(4 * base.tau).usage.calibrations[1]["power"] == pytest.approx(stored / 4)
