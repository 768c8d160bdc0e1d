"""The second half of a convolution written as a matrix product: the sum of shifted maps, and its gradient.

A 3x3 convolution is conv(x)[p] = sum over taps d of W_d x[p + d]. Multiply every location by all W_d at once, then
add up: out[p] = sum over d of y[p + d, d], with zeros beyond the edge. The gradient is the same shifts backwards.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Slices = tuple[slice, slice]


def sum_of_shifts(
    spread: Float[Tensor, "task image location taps_out"], size: tuple[int, int], kernel: int
) -> Float[Tensor, "task image location out"]:
    """Add up the taps, each shifted to the location it belongs to."""
    if kernel == 1:
        return spread
    tasks, images, _, taps_out = spread.shape
    grid = spread.view(tasks * images, *size, kernel**2, taps_out // kernel**2)
    summed: Tensor = SumOfShifts.apply(grid, kernel)  # type: ignore[no-untyped-call] # torch's
    return summed.view(tasks, images, size[0] * size[1], -1)


class SumOfShifts(torch.autograd.Function):
    """[image row column tap out] -> [image row column out]."""

    @staticmethod
    def forward(ctx: Any, grid: Tensor, kernel: int) -> Tensor:
        ctx.shape, ctx.kernel = grid.shape, kernel
        summed = grid[:, :, :, kernel**2 // 2].clone()  # the middle tap stays where it is
        for tap, there, here in taps(kernel, grid.shape[1], grid.shape[2]):
            if tap != kernel**2 // 2:
                summed[:, *here] += grid[:, *there, tap]
        return summed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        spread = gradient.new_zeros(ctx.shape)
        for tap, there, here in taps(ctx.kernel, ctx.shape[1], ctx.shape[2]):
            spread[:, *there, tap] = gradient[:, *here]
        return spread, None


def taps(kernel: int, rows: int, columns: int) -> Iterator[tuple[int, Slices, Slices]]:
    """Each tap's number, the locations p + d that it reads and the locations p that it adds to."""
    reach = kernel // 2
    for tap, (down, right) in enumerate(product(range(-reach, reach + 1), repeat=2)):
        there = span(down, rows), span(right, columns)
        here = span(-down, rows), span(-right, columns)
        yield tap, there, here


def span(offset: int, length: int) -> slice:
    """Of positions 0 .. length - 1, those that are some position of the same row moved by `offset`."""
    return slice(max(0, offset), max(0, length + min(0, offset)))
