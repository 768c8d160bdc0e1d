import math

import pytest
import torch

from implanting.fewshot import UNKNOWN, Calibration, calibrate, calibration_error, open_set_score
from toys import seeded


def overconfident(images: int, way: int = 4, sharpness: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Labels drawn from probabilities, and these probabilities raised to a power."""
    logits = torch.randn(images, way, generator=seeded(), dtype=torch.float64)
    honest = torch.softmax(logits, dim=-1)
    labels = torch.multinomial(honest, 1, generator=seeded(1)).squeeze(1)
    return torch.softmax(sharpness * logits, dim=-1), labels


def test_overconfidence_is_undone_and_the_answers_stay():
    probabilities, labels = overconfident(4000)
    calibration = calibrate(probabilities, labels, torch.zeros(len(labels)))
    assert calibration.power == pytest.approx(1 / 3, rel=0.1)
    sharpened = calibration.sharpen(probabilities)
    assert sharpened.argmax(-1).equal(probabilities.argmax(-1))
    torch.testing.assert_close(sharpened.sum(-1), torch.ones(len(labels), dtype=torch.float64))
    assert calibration_error(sharpened, labels) < 0.3 * calibration_error(probabilities, labels)


def test_with_hardly_any_images_the_power_stays_near_the_usual_one():
    probabilities, labels = overconfident(3)
    moved = [abs(math.log10(calibrate(probabilities[:n], labels[:n], torch.zeros(n)).power)) for n in (1, 3)]
    assert max(moved) < 0.5


@pytest.mark.parametrize("refuse", [0.05, 0.1, 0.5])
def test_the_threshold_refuses_the_share_asked_for(refuse):
    known = torch.randn(999, generator=seeded(), dtype=torch.float64)
    calibration = calibrate(torch.full((999, 2), 0.5), torch.zeros(999, dtype=torch.int64), known)
    refused = (torch.randn(20_000, generator=seeded(1), dtype=torch.float64) > calibration.threshold(refuse)).double()
    assert refused.mean().item() == pytest.approx(refuse, abs=0.03)


def test_with_too_few_scores_nothing_is_refused():
    few = Calibration(1.0, (0.1, 0.2, 0.3), "supports")
    assert few.threshold(0.05) == math.inf
    assert few.backed_by(USUAL).threshold(0.05) == math.inf  # three do not tell a deviation
    assert few.backed_by(USUAL).threshold(0.5) == 0.2
    assert UNKNOWN.threshold(0.5) == math.inf


USUAL = calibrate(torch.full((999, 2), 0.5), torch.zeros(999, dtype=torch.int64), torch.randn(999, generator=seeded(2)))
"""Scores of validation images: of mean zero and deviation one."""


def test_the_base_tells_how_far_the_highest_scores_reach():
    """Tasks whose scores have another mean and deviation than the base's: hardly fewer are refused than may be."""
    refused = []
    for task in range(300):
        scores = 7 + 0.2 * torch.randn(15 + 100, generator=seeded(task), dtype=torch.float64)
        calibration = Calibration(1.0, tuple(scores[:15].sort().values.tolist()), "supports")
        assert calibration.threshold(0.05) == math.inf
        refused.append((scores[15:] > calibration.backed_by(USUAL).threshold(0.05)).double().mean())
    assert 0.025 < torch.stack(refused).mean().item() < 0.05


def test_the_less_may_be_refused_the_higher_is_the_threshold():
    for task in range(20):
        known = tuple(torch.randn(15, generator=seeded(task), dtype=torch.float64).sort().values.tolist())
        calibration = Calibration(1.0, known, "supports").backed_by(USUAL)
        thresholds = [calibration.threshold(refuse) for refuse in (0.5, 0.1, 1 / 16, 0.05, 0.02)]
        assert thresholds == sorted(thresholds)
        assert thresholds[2] == known[-1]


@pytest.mark.parametrize(("count", "refuse"), [(15, 0.1), (30, 0.05)])
def test_few_scores_refuse_the_share_asked_for_on_average(count, refuse):
    """Rounded up to a rank, the threshold would refuse 1 in 16 and 1 in 31."""
    refused = []
    for task in range(400):
        scores = torch.randn(count + 200, generator=seeded(task), dtype=torch.float64)
        threshold = Calibration(1.0, tuple(scores[:count].sort().values.tolist()), "supports").threshold(refuse)
        refused.append((scores[count:] > threshold).double().mean())
    assert torch.stack(refused).mean().item() == pytest.approx(refuse, abs=0.008)


def test_scores_that_are_enough_are_not_helped():
    known = tuple(torch.randn(19, generator=seeded(), dtype=torch.float64).sort().values.tolist())
    assert Calibration(1.0, known, "supports").backed_by(USUAL).threshold(0.05) == known[-1]


def test_the_score_rises_as_an_image_leaves_all_classes():
    near, far = torch.tensor([[0.9, 0.1], [0.7, 0.1]]), torch.tensor([[0.2, 0.1], [0.0, 0.1]])
    assert open_set_score(near).item() == pytest.approx(-0.8)
    assert open_set_score(far) > open_set_score(near)


def test_a_document_holds_all_of_it():
    few = Calibration(1.5, (0.1, 0.2), "supports")
    for whole in (few, few.backed_by(USUAL)):
        assert Calibration.from_document(whole.document()) == whole


def test_many_scores_are_told_by_their_quantiles():
    scores = torch.linspace(0, 1, 1001).flip(0)
    many = calibrate(torch.full((1001, 2), 0.5), torch.zeros(1001, dtype=torch.int64), scores)
    assert len(many.known) == 101
    assert many.threshold(0.1) == pytest.approx(0.9, abs=0.02)


def test_calibration_error_by_hand():
    probabilities = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]])
    labels = torch.tensor([0, 1, 1])  # confidence 0.9 is right half of the time, 0.6 always
    assert calibration_error(probabilities, labels) == pytest.approx((2 * 0.4 + 0.4) / 3)
