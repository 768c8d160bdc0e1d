import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from implanting.implants.shifts import sum_of_shifts
from implanting.networks import strided
from toys import seeded
from twins import as_images, as_kernel

SHAPES = [
    *((kernel, size) for kernel in (1, 3, 5) for size in [(4, 4), (5, 3), (2, 7)]),
    (3, (1, 1)),
    (5, (1, 4)),  # taps that reach beyond the whole map
    (7, (2, 2)),
]


def drawn(kernel: int, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Maps of 2 tasks with 3 images of 4 channels, and a weight to 5 channels."""
    x = torch.randn(2, 3, size[0] * size[1], 4, generator=seeded(1), dtype=torch.float64)
    weight = torch.randn(4, kernel**2 * 5, generator=seeded(2), dtype=torch.float64)
    return x.requires_grad_(), weight.requires_grad_()


def twin(x: Tensor, weight: Tensor, kernel: int, size: tuple[int, int], stride: int) -> Tensor:
    maps = F.conv2d(as_images(x.flatten(0, 1), size), as_kernel(weight, kernel), padding=kernel // 2, stride=stride)
    return maps.flatten(2).transpose(1, 2).unflatten(0, x.shape[:2])


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "size"), SHAPES)
def test_product_and_shifts_are_a_convolution(kernel, size, stride):
    x, weight = drawn(kernel, size)
    convolved, expected = sum_of_shifts(x @ weight, size, kernel, stride), twin(x, weight, kernel, size, stride)
    assert convolved.shape[2] == math.prod(strided(size, stride))
    torch.testing.assert_close(convolved, expected)
    upstream = torch.randn(expected.shape, generator=seeded(3), dtype=torch.float64)
    gradients = torch.autograd.grad(convolved, (x, weight), upstream)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, (x, weight), upstream))


@pytest.mark.parametrize(("kernel", "size", "stride"), [(3, (3, 2), 1), (5, (2, 1), 1), (3, (4, 3), 2)])
def test_gradient_by_finite_differences(kernel, size, stride):
    spread = torch.randn(1, 1, size[0] * size[1], kernel**2 * 2, generator=seeded(), dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda maps: sum_of_shifts(maps, size, kernel, stride), spread.requires_grad_())


def test_one_bright_location_spreads_to_its_neighbours():
    # The tap below-right (number 8) moves what stands in the middle up and to the left; what would come from beyond the
    # edge is zero.
    spread = torch.zeros(1, 1, 9, 9)
    spread[0, 0, 4, 8] = 1
    assert sum_of_shifts(spread, (3, 3), 3).view(3, 3).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_the_maps_given_stay_as_they_were():
    spread = torch.randn(1, 2, 6, 9, generator=seeded())
    before = spread.clone()
    sum_of_shifts(spread, (2, 3), 3)
    assert torch.equal(spread, before)
