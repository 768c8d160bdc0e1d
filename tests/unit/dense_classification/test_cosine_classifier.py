import math

import pytest
import torch
from torch import Tensor

from implanting.dense_classification import CosineClassifier, classification_loss
from toys import seeded

MAPS = torch.randn(4, 5, 2, 3, generator=seeded(1))
LABELS = torch.tensor([0, 2, 1, 2])


def classifier(pooling: str, tau: float = 10.0) -> CosineClassifier:
    torch.manual_seed(0)
    return CosineClassifier(3, 5, pooling, tau, (2, 3))


def naive_vectors(maps: Tensor, pooling: str) -> list[list[float]]:
    """What is classified of one image."""
    dim, rows, columns = maps.shape
    places = [
        [maps[channel, row, column].item() for channel in range(dim)]
        for row in range(rows)
        for column in range(columns)
    ]
    if pooling == "dense":
        return places
    if pooling == "flatten":
        return [[value for place in places for value in place]]
    reduce = max if pooling == "gmp" else lambda values: sum(values) / len(values)
    return [[reduce(values) for values in zip(*places, strict=True)]]


def naive_loss(model: CosineClassifier, maps: Tensor, labels: Tensor) -> float:
    losses = []
    for image, label in zip(maps, labels.tolist(), strict=True):
        for vector in naive_vectors(image, model.pooling):
            scores = []
            for weight in model.class_weights.tolist():
                cosine = sum(a * b for a, b in zip(vector, weight, strict=True)) / (
                    math.hypot(*vector) * math.hypot(*weight)
                )
                scores.append(model.tau.item() * cosine)
            losses.append(math.log(sum(math.exp(score) for score in scores)) - scores[label])
    return sum(losses) / len(losses)


@pytest.mark.parametrize("pooling", ["dense", "gap", "gmp", "flatten"])
def test_loss_against_loops_over_images_locations_and_classes(pooling):
    model = classifier(pooling).double()
    loss = classification_loss(model(MAPS.double()), LABELS)
    assert loss.item() == pytest.approx(naive_loss(model, MAPS, LABELS))


@pytest.mark.parametrize(
    ("pooling", "dim", "scored"), [("dense", 5, 6), ("gap", 5, 1), ("gmp", 5, 1), ("flatten", 30, 1)]
)
def test_shapes(pooling, dim, scored):
    model = classifier(pooling)
    assert model.class_weights.shape == (3, dim)
    assert model(MAPS).shape == (4, scored, 3)


def test_only_class_weights_and_tau_are_learned():
    model = classifier("dense")
    assert {name for name, _ in model.named_parameters()} == {"class_weights", "tau"}
    assert model(torch.zeros(1, 5, 2, 3)).abs().max() == 0  # no bias


def test_tau_is_learned():
    model = classifier("dense", tau=2.0)
    classification_loss(model(MAPS), LABELS).backward()
    bit = 1e-2
    higher, lower = (naive_loss(classifier("dense", 2.0 + sign * bit), MAPS, LABELS) for sign in (1, -1))
    assert model.tau.item() == 2.0
    assert model.tau.grad.item() == pytest.approx((higher - lower) / (2 * bit), rel=1e-3)


def test_class_weights_begin_with_variance_two_over_dim():
    weights = CosineClassifier(200, 50, "dense", 1.0, (1, 1)).class_weights
    assert weights.std().item() == pytest.approx(math.sqrt(2 / 50), rel=0.05)
