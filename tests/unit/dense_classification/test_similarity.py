import inspect
import math

import pytest
import torch
from jaxtyping import TypeCheckError

from implanting.dense_classification import locations, pool, probabilities, prototypes, scaled_cosine
from implanting.errors import ConfigError
from toys import seeded

PHI = torch.tensor([[1.0, 4.0], [3.0, 0.0], [2.0, 2.0]])


def test_locations_are_the_columns_of_the_map():
    maps = torch.arange(2 * 3 * 2 * 4).view(2, 3, 2, 4).float()
    phi = locations(maps)
    assert phi.shape == (2, 8, 3)
    for row in range(2):
        for column in range(4):
            assert torch.equal(phi[:, row * 4 + column], maps[:, :, row, column])


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("gap", [[2.0, 2.0]]),
        ("gmp", [[3.0, 4.0]]),
        ("flatten", [[1.0, 4.0, 3.0, 0.0, 2.0, 2.0]]),
        ("dense", [[1.0, 4.0], [3.0, 0.0], [2.0, 2.0]]),
    ],
)
def test_pool(pooling, expected):
    assert pool(PHI, pooling).tolist() == expected
    assert pool(torch.stack([PHI, -PHI]), pooling)[0].tolist() == expected


def test_the_generalised_mean_is_the_root_of_the_mean_square_of_what_is_positive():
    phi = torch.tensor([[3.0, -1.0, -2.0], [0.0, 7.0, -1.0], [-5.0, 1.0, 0.0]])
    assert pool(phi, "gem")[0].tolist() == pytest.approx([(9 / 3) ** 0.5, (50 / 3) ** 0.5, 0.0])
    assert pool(phi[None].expand(2, -1, -1), "gem").shape == (2, 1, 3)


def test_an_unknown_pooling_is_refused():
    unchecked = inspect.unwrap(pool)  # as it runs for users: without the checks of annotations
    with pytest.raises(ConfigError, match="`pooling` is mean; it must be one of dense, gap, gmp, flatten, gem"):
        unchecked(PHI, "mean")


def test_scaled_cosine_against_a_loop():
    phi, vectors = torch.randn(2, 3, 4, generator=seeded(1)), torch.randn(5, 4, generator=seeded(2))
    scores = scaled_cosine(phi, vectors, 7.0)
    for image in range(2):
        for location in range(3):
            for way in range(5):
                u, v = phi[image, location].tolist(), vectors[way].tolist()
                cosine = sum(a * b for a, b in zip(u, v, strict=True)) / (math.hypot(*u) * math.hypot(*v))
                assert scores[image, location, way].item() == pytest.approx(7 * cosine, abs=1e-5)


def test_cosine_ignores_length():
    phi, vectors = torch.randn(3, 4, generator=seeded(1)), torch.randn(5, 4, generator=seeded(2))
    torch.testing.assert_close(scaled_cosine(9 * phi, 0.1 * vectors, 2.0), scaled_cosine(phi, vectors, 2.0))


def test_probabilities_are_averaged_not_logits():
    # One location is certain of class 0; two lean a little to class 1. Averaged logits would say 0, averaged
    # probabilities say 1.
    scores = torch.tensor([[20.0, 0.0], [0.0, 4.0], [0.0, 4.0]])
    certain, leaning = 1 / (1 + math.exp(-20)), 1 / (1 + math.exp(-4))
    expected = (1 - certain + 2 * leaning) / 3
    assert scores.mean(0).argmax() == 0
    assert probabilities(scores)[1].item() == pytest.approx(expected, rel=1e-5)
    assert probabilities(scores).argmax() == 1


def test_prototypes_are_plain_means_of_supports():
    vectors = torch.tensor([[10.0, 0.0], [9.0, 9.0], [0.0, 1.0], [1.0, 2.0], [3.0, 4.0]])
    supports = torch.tensor([0, 2, 3, 4])
    assert prototypes(vectors, supports, 2).tolist() == [[5.0, 0.5], [2.0, 3.0]]
    assert prototypes(vectors, supports, torch.tensor([2, 2])).tolist() == [[5.0, 0.5], [2.0, 3.0]]
    uneven = prototypes(vectors, supports, torch.tensor([1, 0, 3]))  # of no support there is no mean
    torch.testing.assert_close(uneven, torch.tensor([[10.0, 0.0], [0.0, 0.0], [4 / 3, 7 / 3]]))


def test_shapes_are_checked_while_tests_run():
    with pytest.raises(TypeCheckError):
        scaled_cosine(torch.ones(2, 3, 4), torch.ones(5, 6), 1.0)
