"""The head against scikit-learn, its folds one by one, and what it does with odd tasks."""

import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from implanting.fewshot import assign_folds
from implanting.head import Fitted, fit_head
from implanting.head.logistic_head import score_of_equals
from toys import seeded

DIMS, WEIGHTS = (12, 8), (1.0, 0.5)
UNEVEN = torch.tensor([0] * 5 + [1] * 3 + [2] * 2 + [3])


def drawn(labels: Tensor, seed: int = 0, noise: float = 0.6) -> Tensor:
    """Two joined readings of unit length per image, about a mean of their class."""
    means = torch.randn(int(labels.max()) + 1, sum(DIMS), generator=seeded(7))
    vectors = 1 + means[labels] + noise * torch.randn(len(labels), sum(DIMS), generator=seeded(seed))
    return torch.cat([F.normalize(part, dim=1) for part in vectors.split(DIMS, 1)], 1)


def fit(vectors: Tensor, labels: Tensor, candidates: tuple[tuple[float, ...], ...] = (WEIGHTS,)) -> Fitted:
    return fit_head(vectors, vectors, labels, DIMS, candidates, 0.1)


def naive_scores(supports: Tensor, labels: Tensor, asked: Tensor, way: int) -> Tensor:
    """Weighted, centred on the mean of classes, scaled to unit mean square over classes, by scikit-learn."""
    weights = torch.cat([torch.full((dim,), weight) for dim, weight in zip(DIMS, WEIGHTS, strict=True)])
    classes = [labels == number for number in labels.unique().tolist()]
    centre = torch.stack([supports[members].mean(0) for members in classes]).mean(0)
    centred = (supports - centre) * weights
    square = torch.stack([centred[members].square().sum(1).mean() for members in classes]).mean()
    model = LogisticRegression(C=10, fit_intercept=False, tol=1e-9, max_iter=10_000)
    model.fit((centred / square.sqrt()).double().numpy(), labels.numpy())
    found = model.predict_log_proba(((asked - centre) * weights / square.sqrt()).double().numpy())
    assert found.shape[1] == way
    return torch.from_numpy(found).float()


@pytest.mark.parametrize("labels", [torch.arange(4).repeat(5), UNEVEN], ids=["even", "uneven"])
def test_the_head_is_logistic_regression_on_centred_and_scaled_readings(labels: Tensor) -> None:
    vectors, asked = drawn(labels), drawn(torch.arange(4), seed=1)
    scores = fit(vectors, labels).head.scores(asked)
    assert (scores.log_softmax(1) - naive_scores(vectors, labels, asked, 4)).abs().max() < 5e-3
    assert scores.sum(1).abs().max() < 1e-3


def test_held_out_scores_are_those_of_heads_fitted_without_the_fold() -> None:
    labels = torch.arange(3).repeat(4)
    vectors, turn = drawn(labels), assign_folds(labels, 5)
    found = fit(vectors, labels).held_out
    for fold in range(4):
        held = turn == fold
        expected = naive_scores(vectors[~held], labels[~held], vectors[held], 3)
        assert (found.scores[held].log_softmax(1) - expected).abs().max() < 5e-3
        again = fit(vectors[~held], labels[~held]).head
        open_set = again.open_set_score(vectors[held], again.scores(vectors[held]))
        assert torch.allclose(found.open_set_scores()[held] / found.growth, open_set, atol=5e-3)
    assert found.growth == pytest.approx((4 / 3) ** 0.5)


def test_a_class_of_one_image_is_never_held_out() -> None:
    found = fit(drawn(UNEVEN), UNEVEN).held_out
    assert found.scores.isfinite().all(1).tolist() == [True] * 10 + [False]
    assert fit(drawn(torch.arange(4)), torch.arange(4)).held_out.scores.isnan().all()


def test_another_weight_is_taken_only_where_held_out_images_ask_for_it() -> None:
    labels = torch.arange(4).repeat(5)
    vectors = drawn(labels, noise=0.2)
    swapped = vectors.clone()
    swapped[:, :12] = F.normalize(torch.randn(20, 12, generator=seeded(3)), dim=1)  # the first reading says nothing
    candidates = ((1.0, 0.05), (0.05, 1.0))
    assert fit(vectors, labels, candidates).reading_weights == candidates[0]
    assert fit(swapped, labels, candidates).reading_weights == candidates[1]


def test_of_very_many_classes_some_choose_the_weights_and_all_are_held_out():
    labels = torch.arange(400).repeat(2)
    reading = F.normalize(torch.randn(400, 12, generator=seeded(1)), dim=1)[
        labels
    ]  # only the first tells classes apart
    other = F.normalize(torch.randn(800, 8, generator=seeded(2)), dim=1)
    fitted = fit(torch.cat([reading, other], 1), labels, ((0.05, 1.0), (1.0, 0.05)))
    assert fitted.reading_weights == (1.0, 0.05)
    assert fitted.held_out.scores.shape == (800, 400)
    assert (fitted.held_out.scores.argmax(1) == labels).all()


def test_strangers_score_higher_than_known_images() -> None:
    labels = torch.arange(4).repeat(5)
    head = fit(drawn(labels, noise=0.3), labels).head
    known = drawn(labels, seed=1, noise=0.3)
    strangers = F.normalize(torch.randn(20, sum(DIMS), generator=seeded(5)), dim=1)
    scores = [head.open_set_score(images, head.scores(images)) for images in (known, strangers)]
    assert scores[0].median() < scores[1].median()


@pytest.mark.parametrize("labels", [torch.arange(3).repeat(3), torch.arange(3)])
def test_identical_images_in_all_classes_are_a_tie(labels: Tensor) -> None:
    vectors = drawn(torch.zeros(1, dtype=torch.long)).expand(len(labels), -1)
    fitted = fit(vectors, labels)
    assert torch.allclose(fitted.head.scores(vectors).softmax(1), torch.full((len(labels), 3), 1 / 3), atol=1e-3)
    assert fitted.head.open_set_score(vectors, fitted.head.scores(vectors)).isfinite().all()


def test_nearly_identical_images_are_not_lost_in_rounding() -> None:
    labels = torch.arange(4).repeat(5)
    vectors = F.normalize(drawn(torch.zeros(1, dtype=torch.long)) + 4e-3 * drawn(labels), dim=1)
    scores, elsewhere = (fit(each, labels).held_out.scores for each in (vectors, vectors - vectors.mean(0)))
    assert float((scores - elsewhere).abs().max()) < 1e-4


def test_more_images_than_dims_and_than_folds_are_fitted_to() -> None:
    labels = torch.arange(4).repeat(400)
    fitted = fit(drawn(labels), labels)
    assert fitted.held_out.scores.isfinite().all()
    assert (fitted.held_out.scores.argmax(1) == labels).float().mean() > 0.9


@pytest.mark.parametrize("way", [2, 4, 10])
def test_the_score_of_equals_is_that_of_supports_that_are_equally_far_from_each_other(way: int) -> None:
    vectors, labels = torch.eye(way), torch.arange(way)
    head = fit_head(vectors, vectors, labels, [way], [[1.0]], 0.1).head
    assert head.scores(vectors).diagonal().mean() == pytest.approx(score_of_equals(way, 0.1), abs=1e-3)
    assert torch.allclose(head.open_set_score(vectors, head.scores(vectors)), torch.tensor(-1.0), atol=1e-3)
