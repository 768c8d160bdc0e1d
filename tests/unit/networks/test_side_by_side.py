import pytest
import torch
import torch.nn.functional as F

from implanting.errors import ImageTooSmall
from implanting.networks import EfficientNetLite, LiteVariant, SideBySide, folded
from implanting.networks.frozen import packed
from implanting.networks.side_by_side import of_unit_mean
from toys import seeded, unsettle

SMALL = LiteVariant(0.1, 0.1, 64), LiteVariant(0.2, 0.5, 64)


@pytest.fixture(scope="module")
def pair():
    network = SideBySide([EfficientNetLite(variant) for variant in SMALL]).eval().requires_grad_(False)
    unsettle(network)
    return network


def test_the_pooled_features_of_each_are_of_unit_length_and_joined(pair):
    x = torch.randn(3, 3, 64, 96, generator=seeded())
    pooled = pair(x).mean((2, 3))
    assert pooled.shape == (3, 2560)
    for place, member in enumerate(pair.members):
        alone = F.normalize(member(x).mean((2, 3)), dim=1)
        torch.testing.assert_close(pooled[:, 1280 * place : 1280 * (place + 1)], alone)


def test_the_cosine_is_the_mean_of_the_members_cosines(pair):
    x = torch.randn(2, 3, 64, 64, generator=seeded())
    joined = F.cosine_similarity(*pair(x).mean((2, 3)), dim=0)
    apart = [F.cosine_similarity(*member(x).mean((2, 3)), dim=0) for member in pair.members]
    assert joined.item() == pytest.approx(sum(each.item() for each in apart) / 2, abs=1e-5)


def test_maps_of_nothing_stay_nothing():
    assert torch.equal(of_unit_mean(torch.zeros(1, 2, 3, 3)), torch.zeros(1, 2, 3, 3))


def test_it_is_folded_and_packed_as_a_whole(pair):
    quick = packed(folded(pair, (64, 64)), (64, 64))
    assert quick is not pair
    assert not any(isinstance(layer, torch.nn.BatchNorm2d) for layer in quick.modules())
    x = torch.randn(2, 3, 64, 64, generator=seeded())
    expected = pair(x)
    assert (quick(x) - expected).abs().max() < 1e-4 * expected.abs().max()


def test_what_it_offers(pair):
    assert pair.tail is None
    assert pair.map_size(65, 96) == (3, 3)
    maps, phi = pair.activations(torch.randn(1, 3, 65, 96, generator=seeded()))
    assert maps == []
    assert phi.shape == (1, 2560, 3, 3)
    assert pair.identity_text != pair.members[0].identity_text
    with pytest.raises(ImageTooSmall):
        pair.map_size(31, 64)


def test_its_readings_are_those_of_each_member_in_turn(pair):
    x = torch.randn(2, 3, 64, 64, generator=seeded())
    expected = [reading for member in pair.members for reading in member.readings(x)]
    for found, maps, reading in zip(pair.readings(x), pair.reading_maps(x), expected, strict=True):
        torch.testing.assert_close(found, reading)
        torch.testing.assert_close(maps.mean((2, 3)), reading, atol=1e-5, rtol=1e-4)
