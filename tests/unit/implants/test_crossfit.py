"""Cross-fitting against a loop over folds one by one, and what must not leak into a held-out score."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from implanting.config import ImplantConfig
from implanting.errors import DataError
from implanting.fewshot import assign_folds
from implanting.implants import Fitting, Supports
from implanting.implants.by_decision import HeldOut, implants_help
from implanting.implants.fitting import Scores, cross_fit_implants, cross_fit_prototypes, group_folds
from toy_tasks import CONFIG, drawn, fitting, generators

UNEVEN = torch.tensor([1, 0, 2, 0, 1, 3, 1, 0, 1])
"""Three images of class 0, four of class 1, and one each of classes 2 and 3."""

EVEN = torch.arange(3).repeat_interleave(3)


def naive_folds(labels: Tensor, folds: int) -> list[list[int]]:
    """The images held out in each fold."""
    sizes = labels.bincount()
    held: list[list[int]] = [[] for _ in range(min(folds, int(sizes.max())))]
    met = [0] * len(sizes)
    for image, label in enumerate(labels.tolist()):
        if sizes[label] > 1:
            held[met[label] % len(held)].append(image)
            met[label] += 1
    return held


def naive_cross_fit(supports: Supports, how: Fitting, task: int) -> dict[int, tuple[Tensor, Tensor]]:
    """The scores [location way] of each image by prototypes and by implants, one fold at a time, one task at a time."""
    scores = {}
    for held in naive_folds(supports.labels, how.config.decision_folds):
        kept = [image for image in range(len(supports.labels)) if image not in held]
        rows = [image * supports.views + view for image in kept for view in range(supports.views)]
        rest = Supports.of_one_task(
            [maps[task, rows] for maps in supports.base_maps],
            supports.phi[task, rows],
            supports.labels[kept],
            supports.sizes,
            supports.views,
        )
        first = [image * supports.views for image in held]
        queries = [maps[task : task + 1, first] for maps in supports.base_maps], supports.phi[task : task + 1, first]
        by_prototypes = how.fit_prototypes(rest).scores(*queries)[0]
        by_implants = how.fit_implants(rest, generators(task)).scores(*queries)[0]
        for place, image in enumerate(held):
            scores[image] = by_prototypes[place], by_implants[place]
    return scores


def cross_fit(supports: Supports, how: Fitting, together: int = 8) -> HeldOut:
    """What prototypes and implants say, the implants of task i drawn from its own generator."""
    by_implants = cross_fit_implants(supports, how, generators(0, 1), together)
    return HeldOut(supports.labels, cross_fit_prototypes(supports, how, together), by_implants)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("labels", [UNEVEN, EVEN])
@pytest.mark.parametrize(("views", "folds"), [(1, 3), (2, 2), (2, 9)])
def test_cross_fitting_equals_a_loop_over_folds(labels, views, folds):
    supports = drawn(labels, views)
    how = fitting(replace(CONFIG, adapt_views=views, decision_folds=folds), views)
    found = cross_fit(supports, how, together=3)
    for task in range(2):
        expected = naive_cross_fit(supports, how, task)
        assert found.prototypes.cosines[task].isfinite().all(-1).nonzero().flatten().tolist() == sorted(expected)
        for image, pair in expected.items():
            for scores, naive, tau in zip((found.prototypes, found.implants), pair, (17.0, 10.0), strict=True):
                probabilities = naive.softmax(-1).mean(0)
                torch.testing.assert_close(scores.probabilities[task, image], probabilities)
                torch.testing.assert_close(scores.cosines[task, image], naive.mean(0) / tau)


def test_lone_images_are_never_held_out_but_stay_prototypes():
    supports = drawn(UNEVEN)
    found = cross_fit(supports, fitting())
    for scores in (found.prototypes, found.implants):
        assert scores.probabilities[:, [2, 5]].isnan().all()
        others = [0, 1, 3, 4, 6, 7, 8]
        assert (scores.probabilities[:, others] > 0).all()
        torch.testing.assert_close(scores.probabilities[:, others].sum(-1), torch.ones(2, 7))
    turned = replace(supports, phi=supports.phi.clone())
    turned.phi[:, [4, 5]] *= -1  # both views of the only image of class 2
    again = cross_fit(turned, fitting()).prototypes.cosines[:, others]
    torch.testing.assert_close(again[..., 2], -found.prototypes.cosines[:, others][..., 2])
    assert torch.equal(again[..., [0, 1, 3]], found.prototypes.cosines[:, others][..., [0, 1, 3]])


def changed(supports: Supports, image: int) -> Supports:
    """All views of one image made something else."""
    rows = torch.arange(supports.views) + image * supports.views
    phi, base_maps = supports.phi.clone(), [maps.clone() for maps in supports.base_maps]
    for part in (phi, *base_maps):
        part[:, rows] = 3 * part[:, rows].flip(-1) + 1
    return replace(supports, base_maps=base_maps, phi=phi)


@pytest.mark.parametrize("views", [1, 2])
def test_what_is_held_out_is_seen_by_nothing_that_scores_its_fold(views):
    supports = drawn(EVEN, views)
    how = fitting(replace(CONFIG, adapt_views=views, decision_folds=3), views)
    before, after = (cross_fit(part, how) for part in (supports, changed(supports, 4)))
    fold = [1, 4, 7]  # the second image of each class
    for old, new in ((before.prototypes, after.prototypes), (before.implants, after.implants)):
        same = [image for image in fold if image != 4]
        assert torch.equal(old.cosines[:, same], new.cosines[:, same])
        moved = [image for image in range(9) if image not in fold]
        assert (old.cosines[:, moved] - new.cosines[:, moved]).abs().amax((0, 2)).min() > 1e-4


def test_views_of_a_held_out_image_do_not_change_its_own_score():
    supports = drawn(EVEN, views=3)
    how = fitting(replace(CONFIG, adapt_views=3, decision_folds=3), support_views=3)
    other = replace(supports, phi=supports.phi.clone(), base_maps=[maps.clone() for maps in supports.base_maps])
    for part in (other.phi, *other.base_maps):
        part[:, [13, 14]] = -part[:, [13, 14]]  # the second and third view of image 4
    before, after = (cross_fit(part, how) for part in (supports, other))
    assert torch.equal(before.implants.probabilities[:, 4], after.implants.probabilities[:, 4])
    assert torch.equal(before.prototypes.probabilities[:, 4], after.prototypes.probabilities[:, 4])
    assert not torch.equal(before.implants.probabilities[:, 3], after.implants.probabilities[:, 3])


def test_folds_that_keep_the_same_classes_are_fitted_together():
    (even,) = group_folds(EVEN, assign_folds(EVEN, 5))
    assert even.kept.shape == (3, 6)
    assert even.held.tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    first, last = group_folds(UNEVEN, assign_folds(UNEVEN, 5))
    assert first.held.tolist() == [[1, 0], [3, 4], [7, 6]]
    assert last.held.tolist() == [[8]]
    halves = group_folds(UNEVEN, assign_folds(UNEVEN, 2))
    assert [folds.held.tolist() for folds in halves] == [[[1, 7, 0, 6]], [[3, 4, 8]]]


def test_implants_that_no_fold_can_train_say_nothing():
    labels = torch.arange(3).repeat_interleave(2)
    found = cross_fit(drawn(labels, 1), fitting(replace(CONFIG, adapt_views=1)))
    assert found.implants.probabilities.isnan().all()
    assert found.prototypes.probabilities.isfinite().all()
    assert implants_help(found, CONFIG).all()  # nothing speaks against them
    with pytest.raises(DataError, match="two images or more"):
        cross_fit(drawn(torch.arange(3), 2), fitting())


def said(*own: float) -> Scores:
    """Of images of class 0, the probability of it."""
    probabilities = torch.tensor(own)[None, :, None]
    return Scores(torch.cat([probabilities, 1 - probabilities], -1), torch.zeros(1, len(own), 2))


@pytest.mark.parametrize(
    ("by_implants", "margin", "helped"),
    [
        ((0.6, 0.6, 0.6), 1.0, True),
        ((0.4, 0.4, 0.4), 1.0, False),
        ((0.4, 0.6, 0.3), 1.0, True),  # worse on average, by less than a standard error
        ((0.4, 0.6, 0.3), 0.0, False),
        ((0.4, float("nan"), 0.3), 1.0, False),
    ],
)
def test_implants_are_left_out_where_held_out_supports_speak_against_them(by_implants, margin, helped):
    held_out = HeldOut(torch.zeros(3, dtype=torch.long), said(0.5, 0.5, 0.5), said(*by_implants))
    assert implants_help(held_out, ImplantConfig(decision_margin=margin)).tolist() == [helped]
