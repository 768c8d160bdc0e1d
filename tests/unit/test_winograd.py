import pytest
import torch
import torch.nn.functional as F

from implanting import winograd
from implanting.winograd import convolve, transformed
from rounding import assert_near, of_sums
from toys import seeded


def drawn(*shape):
    return torch.randn(*shape, generator=seeded(sum(shape)))


def rounding(x, weight):
    """What the definition may err by; it has nine terms for each of the channels, all of which the largest sum has."""
    magnitude = F.conv2d(x.double().abs(), weight.double().abs(), padding=1)
    return of_sums(weight[0].numel(), magnitude).max()


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (4, 6), (5, 7), (10, 3), (21, 8)])
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_the_convolution(size, bias):
    x, weight = drawn(3, 5, *size), drawn(4, 5, 3, 3)
    offset = drawn(4) if bias else None
    expected = F.conv2d(x.double(), weight.double(), offset.double() if bias else None, padding=1)
    for maps in (x.to(memory_format=torch.channels_last), x):
        found = convolve(maps, *transformed(weight, offset))
        assert found.shape == expected.shape
        assert (found - expected).abs().max() <= rounding(x, weight)


def test_rounding_is_no_worse_than_that_of_the_definition():
    x, weight = drawn(2, 256, 9, 9), drawn(128, 256, 3, 3)
    exact = F.conv2d(x.double(), weight.double(), padding=1)
    assert (convolve(x, *transformed(weight, None)) - exact).abs().max() <= rounding(x, weight)


def test_many_images_go_in_parts(monkeypatch):
    x, ready = drawn(5, 4, 6, 6), transformed(drawn(3, 4, 3, 3), drawn(3))
    together = convolve(x, *ready)
    monkeypatch.setattr(winograd, "TILES", 2 * 16 * 3 * 3 * 4)
    assert_near(convolve(x, *ready), together)


def test_the_map_is_left_as_it_was():
    x = drawn(2, 4, 6, 6)
    before = x.clone()
    convolve(x, *transformed(drawn(3, 4, 3, 3), None))
    assert torch.equal(x, before)
