"""Logistic regression of many tasks at once against scikit-learn's, task by task."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from implanting.fewshot.logistic_regression import fit_dual, logistic_regression


def blobs(tasks: int, way: int, shot: int, dim: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Unit features of classes that overlap, [task image dim], and their classes."""
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(tasks, way, 1, dim, generator=generator)
    features = 2 + means + torch.randn(tasks, way, shot, dim, generator=generator)
    return F.normalize(features.flatten(1, 2), dim=-1), torch.arange(way).repeat_interleave(shot)


def by_scikit_learn(
    support: Tensor, labels: Tensor, query: Tensor, penalty: float, intercept: bool = True
) -> Float[np.ndarray, "image way"]:
    model = LogisticRegression(C=1 / penalty, fit_intercept=intercept, tol=1e-8, max_iter=10_000)
    model.fit(support.double().numpy(), labels.numpy())
    return model.predict_proba(query.double().numpy())


@pytest.mark.parametrize("dim", [6, 40], ids=["primal", "dual"])
@pytest.mark.parametrize("penalty", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("intercept", [True, False])
def test_probabilities_are_those_of_scikit_learn(dim: int, penalty: float, intercept: bool) -> None:
    support, labels = blobs(3, 4, 5, dim)
    query, _ = blobs(3, 4, 5, dim, seed=1)
    given = logistic_regression(support, labels[None], penalty, intercept=intercept).scores(query).softmax(-1)
    for task in range(3):
        expected = by_scikit_learn(support[task], labels, query[task], penalty, intercept)
        assert np.abs(given[task].numpy() - expected).max() < 1e-3


def test_uneven_classes_and_a_penalty_per_task() -> None:
    support, _ = blobs(2, 4, 5, 40)
    labels = torch.tensor([0] * 12 + [1] * 6 + [2, 3])
    given = logistic_regression(support, labels[None], torch.tensor([0.5, 0.02])).scores(support).softmax(-1)
    for task, penalty in enumerate((0.5, 0.02)):
        expected = by_scikit_learn(support[task], labels, support[task], penalty)
        assert np.abs(given[task].numpy() - expected).max() < 1e-3


def test_a_task_gets_the_same_answer_alone_and_among_others() -> None:
    support, labels = blobs(5, 3, 4, 20)
    together = logistic_regression(support, labels[None], 0.1)
    alone = logistic_regression(support[3:4], labels[None], 0.1)
    difference = together.scores(support)[3] - alone.scores(support[3:4])[0]
    assert difference.abs().max() < 1e-3


def test_images_that_are_not_kept_take_no_part() -> None:
    support, labels = blobs(2, 3, 4, 20)
    kept = torch.ones(2, 12, dtype=torch.bool)
    kept[0, ::4], kept[1, 3] = False, False
    truth = F.one_hot(labels).float().expand(2, -1, -1)
    coefficients, _ = fit_dual(support @ support.mT, truth, 0.1, kept=kept)
    assert (coefficients[~kept] == 0).all()
    for task in range(2):
        few = support[task, kept[task]][None]
        expected = logistic_regression(few, labels[kept[task]][None], 0.1, intercept=False).class_weights[0]
        assert torch.allclose(coefficients[task].T @ support[task], expected, atol=2e-3)


def test_a_class_without_images_is_the_least_likely() -> None:
    support, labels = blobs(1, 3, 4, 20)
    given = logistic_regression(support, labels[None], 0.1, way=4).scores(support).softmax(-1)
    assert given.shape[2] == 4
    assert (given.argmin(-1) == 3).all()


def test_identical_images_of_two_classes_are_a_tie() -> None:
    image = F.normalize(torch.rand(1, 1, 20), dim=-1).expand(1, 2, 20)
    given = logistic_regression(image, torch.tensor([[0, 1]]), 0.1).scores(image).softmax(-1)
    assert torch.allclose(given, torch.full((1, 2, 2), 0.5))
