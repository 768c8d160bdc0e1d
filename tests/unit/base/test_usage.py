"""How base networks are used where the user does not say."""

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from implanting.base import load_base
from implanting.base.usage import HeadDefaults, Recognition, mean_likeness
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


def read_as(name: str, predictions: list[torch.Tensor]) -> tuple[HeadDefaults, Sequence[int], torch.Tensor]:
    """Readings of images for which every network of the base has these rooted probabilities."""
    base = load_base(name)
    parts = [torch.rand(len(predictions), dim) for dim in base.reading_dims]
    for place in range(2, len(parts), 4):
        parts[place] = torch.stack(predictions)
    return base.usage.head, base.reading_dims, torch.cat(parts, dim=1)


@pytest.mark.parametrize("temperature", [0.5, 2.0])  # the scale of logits varies with the size of images
@pytest.mark.parametrize(
    ("prominence", "shares"),
    [(9.0, (1, 0, 0)), (7.1, (1, 0, 0)), (6.25, (0.5, 0, 0.5)), (5.4, (0, 0, 1)), (3.0, (0, 0, 1))],
)
@pytest.mark.parametrize("name", ["efficientnet-lite0", "lite0+lite2"])
def test_images_seen_alike_are_recognised_by_how_far_the_first_prediction_stands_out(
    name, prominence, shares, temperature
):
    head, dims, vectors = read_as(name, [rooted(prominence, temperature)] * 3)
    seen = head.recognise(vectors, torch.arange(3), dims)
    assert dataclasses.astuple(seen) == pytest.approx(shares, abs=0.01)


@pytest.mark.parametrize("name", ["efficientnet-lite0", "lite0+lite2"])
def test_images_that_are_not_recognised_but_differ_are_unclear(name):
    prediction = rooted(4.0, 1.0)
    head, dims, vectors = read_as(name, [prediction.roll(333 * place) for place in range(3)])
    assert dataclasses.astuple(head.recognise(vectors, torch.arange(3), dims)) == pytest.approx((0, 1, 0))
    one_class_is_seen_alike = head.recognise(vectors[[0, 0, 0, 1, 1, 2]], torch.tensor([0, 0, 0, 1, 1, 2]), dims)
    assert one_class_is_seen_alike.unclear == pytest.approx(1)


def test_likeness_is_the_mean_cosine_over_pairs_of_different_classes():
    logits, labels = (
        torch.randn(9, 20, generator=torch.Generator().manual_seed(0)),
        torch.tensor([0] * 4 + [1] * 3 + [3] * 2),
    )
    cosines = [
        torch.nn.functional.cosine_similarity(logits[i], logits[j], dim=0)
        for i, j in itertools.permutations(range(9), 2)
        if labels[i] != labels[j]
    ]
    assert mean_likeness(logits, labels) == pytest.approx(torch.stack(cosines).mean().item(), abs=1e-6)
    assert mean_likeness(logits[:4], labels[:4]) == pytest.approx(0, abs=1e-6)  # a single class has no such pair


@pytest.mark.parametrize(("alike", "weight"), [(0.0, 1.0), (0.5, math.sqrt(5)), (1.0, 5.0)])
@pytest.mark.parametrize("name", ["efficientnet-lite0", "lite0+lite2"])
def test_the_middle_counts_more_for_images_that_a_base_sees_alike(name, alike, weight):
    base = load_base(name)
    usual = base.usage.head.reading_weights
    rule, *others = base.usage.head.weights_for(Recognition(0.0, 1 - alike, alike))
    assert rule == pytest.approx([weight if place % 4 == 3 else number for place, number in enumerate(usual[0])])
    assert tuple(others) == usual[1:]


def test_images_without_any_prediction_are_alike_or_unclear():
    base = load_base("efficientnet-lite0")
    vectors = torch.full((2, sum(base.reading_dims)), 0.03)
    assert base.usage.head.recognise(vectors, torch.arange(2), base.reading_dims).recognised == 0


def test_a_base_without_predictions_counts_every_image_as_recognised():
    assert HeadDefaults().recognise(torch.rand(2, 5), torch.arange(2), [5]) == Recognition(1.0, 0.0, 0.0)


RECOGNISED, UNCLEAR, ALIKE = Recognition(), Recognition(0.0, 1.0, 0.0), Recognition(0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("way", "seen", "expected"),
    [
        (2, RECOGNISED, -1),
        (3, RECOGNISED, -1),
        (10, RECOGNISED, -2),
        (1000, RECOGNISED, -2),
        (10, ALIKE, -6),
        (10, UNCLEAR, -0.5),
        (3, Recognition(0.5, 0.5, 0.0), -0.6),
        (3, Recognition(0.5, 0.0, 0.5), -0.5 - 0.25 * 0.2 - 0.25 * 5),  # half alike counts as a quarter alike
        (5, RECOGNISED, -1.4243),
    ],
)
def test_scores_of_known_images_are_interpolated_between_the_tasks_they_were_measured_on(way, seen, expected):
    by_task = {
        "recognised": {"3": [-1.0], "10": [-2.0]},
        "unclear": {"3": [-0.2], "10": [-0.5]},
        "alike": {"3": [-5.0], "10": [-6.0]},
    }
    given = HeadDefaults(calibrations={1: {"power": 3.0, "by_task": by_task}}).calibrations_for(way, seen)
    assert given[1]["known"] == [pytest.approx(expected, abs=1e-4)]
    assert given[1]["power"] == 3.0


@pytest.mark.parametrize("name", ["efficientnet-lite0", "efficientnet-lite2", "lite0+lite2"])
def test_with_one_image_per_class_unclear_photos_of_few_classes_score_highest(name):
    head = load_base(name).usage.head
    unclear, three, ten, drawn = (
        np.median(head.calibrations_for(way, seen)[1]["known"])
        for way, seen in ((3, UNCLEAR), (3, RECOGNISED), (10, RECOGNISED), (10, ALIKE))
    )
    assert unclear > three > ten > drawn
