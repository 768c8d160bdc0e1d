import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from implanting.bench import rivals
from toys import seeded

WAY, DIM = 4, 60


def drawn(per_class: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit features about a centre per class."""
    labels = torch.arange(WAY).repeat_interleave(per_class)
    centres = torch.randn(WAY, DIM, generator=seeded())
    return F.normalize(centres[labels] + 2 * torch.randn(len(labels), DIM, generator=seeded(seed)), dim=1), labels


QUERIES, TRUTH = drawn(20, seed=9)


@pytest.mark.parametrize("per_class", [1, 2, 6, 30])
def test_logistic_regression_is_the_same_in_the_span_of_the_supports(per_class):
    features, labels = drawn(per_class, seed=1)
    plain = rivals.logistic_regression(features, labels)(QUERIES)
    quick = rivals.in_their_span(features, labels)(QUERIES)
    assert (plain - quick).abs().max() < 0.01  # both stop where a step gains little
    assert (plain.argmax(1) == quick.argmax(1)).double().mean() > 0.98


def test_with_one_image_per_class_it_is_scikit_learns_with_c_100():
    features, labels = drawn(1, seed=1)
    model = LogisticRegression(C=100, max_iter=1000).fit(features.numpy(), labels.numpy())
    found = rivals.logistic_regression(features, labels)(QUERIES).numpy()
    np.testing.assert_allclose(found, model.predict_proba(QUERIES.numpy()), atol=1e-2)


def test_more_images_choose_c_by_cross_validation(monkeypatch):
    tried = []

    class Noting(LogisticRegression):
        def fit(self, X, y):  # noqa: N803 (scikit-learn's name)
            tried.append((self.C, len(y)))
            return super().fit(X, y)

    monkeypatch.setattr(rivals, "LogisticRegression", Noting)
    rivals.logistic_regression(*drawn(3, seed=1))
    assert {strength for strength, _ in tried} == set(rivals.STRENGTHS)
    assert [images for _, images in tried].count(2 * WAY) == 3 * len(rivals.STRENGTHS)
    assert tried[-1][1] == 3 * WAY


def test_one_class_of_a_single_image_is_no_obstacle():
    features, labels = drawn(3, seed=1)
    answers = rivals.logistic_regression(features[2:], labels[2:])(QUERIES)
    assert answers.shape == (len(QUERIES), WAY)


def test_nearest_neighbour_is_scikit_learns():
    features, labels = drawn(5, seed=1)
    model = KNeighborsClassifier(1).fit(features.numpy(), labels.numpy())
    found = rivals.nearest_neighbour(features, labels)(QUERIES)
    assert found.argmax(1).tolist() == model.predict(QUERIES.numpy()).tolist()
    assert set(found.flatten().tolist()) == {0.0, 1.0}


def test_prototypes_are_means_and_tau_scales_the_cosine():
    features, labels = drawn(5, seed=1)
    means = torch.stack([features[labels == number].mean(0) for number in range(WAY)])
    expected = (7.0 * F.cosine_similarity(QUERIES[:, None], means[None], dim=2)).softmax(1)
    torch.testing.assert_close(rivals.prototypes(7.0)(features, labels)(QUERIES), expected)
