"""The second half of a convolution written as a matrix product: the sum of shifted maps, and its gradient.

A 3x3 convolution is conv(x)[p] = sum over taps d of W_d x[p + d]. Multiply every location by all W_d at once, then
add up: out[p] = sum over d of y[p + d, d], with zeros beyond the edge. With a stride, p counts every stride-th location
(of the products at the others nothing is used). The gradient is the same shifts backwards.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Slices = tuple[slice, slice]


def sum_of_shifts(
    spread: Float[Tensor, "task image location taps_out"], size: tuple[int, int], kernel: int, stride: int = 1
) -> Float[Tensor, "task image strided_location out"]:
    """Add up the taps, each shifted to the location it belongs to."""
    if kernel == stride == 1:
        return spread
    tasks, images, _, taps_out = spread.shape
    grid = spread.view(tasks * images, *size, kernel**2, taps_out // kernel**2)
    summed: Tensor = SumOfShifts.apply(grid, kernel, stride)  # type: ignore[no-untyped-call] # torch's
    return summed.view(tasks, images, summed.shape[1] * summed.shape[2], summed.shape[3])


class SumOfShifts(torch.autograd.Function):
    """[image row column tap out] -> [image row column out]."""

    @staticmethod
    def forward(ctx: Any, grid: Tensor, kernel: int, stride: int) -> Tensor:
        ctx.shape, ctx.kernel, ctx.stride = grid.shape, kernel, stride
        summed = grid[:, ::stride, ::stride, kernel**2 // 2].clone()  # the middle tap stays where it is
        for tap, there, here in taps(kernel, stride, grid.shape[1], grid.shape[2]):
            if tap != kernel**2 // 2:
                summed[:, *here] += grid[:, *there, tap]
        return summed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        spread = gradient.new_zeros(ctx.shape)
        for tap, there, here in taps(ctx.kernel, ctx.stride, ctx.shape[1], ctx.shape[2]):
            spread[:, *there, tap] = gradient[:, *here]
        return spread, None, None


def taps(kernel: int, stride: int, rows: int, columns: int) -> Iterator[tuple[int, Slices, Slices]]:
    """Each tap's number, the locations stride * p + d that it reads and the locations p that it adds to."""
    reach = kernel // 2
    for tap, (down, right) in enumerate(product(range(-reach, reach + 1), repeat=2)):
        (there_rows, here_rows), (there_columns, here_columns) = span(down, stride, rows), span(right, stride, columns)
        yield tap, (there_rows, there_columns), (here_rows, here_columns)


def span(offset: int, stride: int, length: int) -> tuple[slice, slice]:
    """The positions stride * p + offset that lie in 0 .. length - 1, and their p."""
    first = max(0, -(offset // stride))
    last = max(first, min(-(-length // stride), (length - 1 - offset) // stride + 1))
    start = stride * first + offset
    return slice(start, start + stride * (last - first), stride), slice(first, last)
