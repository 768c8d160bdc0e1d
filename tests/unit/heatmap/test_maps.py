import pytest
import torch

from implanting.dense_classification import probabilities, scaled_cosine
from implanting.heatmap import similarity_maps, softmax_maps
from toys import seeded, toy_base

PHI = torch.randn(6, 4, generator=seeded(1))
VECTORS = torch.randn(3, 4, generator=seeded(2))


def cosine(first, second) -> float:
    return (first @ second / first.norm() / second.norm()).item()


def test_each_location_is_compared_with_each_class():
    maps = similarity_maps(PHI, VECTORS, (2, 3))
    assert maps.shape == (3, 2, 3)
    for way in range(3):
        for row in range(2):
            for column in range(3):
                expected = cosine(PHI[3 * row + column], VECTORS[way])
                assert maps[way, row, column].item() == pytest.approx(expected, abs=1e-5)


def test_softmax_maps_share_out_each_location_and_average_to_the_dense_probability():
    maps = softmax_maps(PHI, VECTORS, 7.0, (2, 3))
    torch.testing.assert_close(maps.sum(0), torch.ones(2, 3))
    torch.testing.assert_close(maps.mean((1, 2)), probabilities(scaled_cosine(PHI, VECTORS, 7.0)))


def test_a_map_is_oriented_as_its_image():
    """A bright spot in one corner stands out in the same corner of the map, also of an oblong, finer one."""
    base = toy_base(size=32)
    dark = torch.zeros(1, 64, 96, 3, dtype=torch.uint8)
    spot = dark.clone()
    spot[:, :16, 80:] = 255
    size = base.network.map_size(64, 96)
    assert size == (4, 6)
    plain, spotted = (base.embed(image)[0] for image in (dark, spot))
    changes = (similarity_maps(spotted, plain[:1], size) - similarity_maps(plain, plain[:1], size))[0].abs()
    assert divmod(int(changes.argmax()), 6) == (0, 5)
