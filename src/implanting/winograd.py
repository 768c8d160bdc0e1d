"""A 3x3 convolution by Winograd's algorithm F(2x2, 3x3): 16 products where the definition has 36.

Each 2x2 square of the output needs a 4x4 tile of the input. Tile d, kernel g and output y (Lavin & Gray, 2016):

    y = A^T [(G g G^T) * (B^T d B)] A

where the product in the middle is, for all tiles and channels at once, 16 matrix products. G is applied to the weights
beforehand; B and A only add and subtract, so that it errs about as the definition does, whose error is two thirds of
Winograd's or four times it, depending on the processor. Maps are in channels_last memory order. No gradient is offered.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

TILES = 2**22
"""Numbers of transformed tiles at once, at most: 16 MiB. Larger ones leave the cache, and the memory allocator too."""


def transformed(
    weight: Float[Tensor, "out channel 3 3"], bias: Float[Tensor, " out"] | None
) -> tuple[Float[Tensor, "16 channel out"], Float[Tensor, "16 1 out"]]:
    """G g G^T, and what adds the bias: the entry (1, 1) of a tile's product goes to all four of its outputs."""
    g = weight.new_tensor([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    products = torch.einsum("ik,ockl,jl->ijco", g, weight, g).flatten(0, 1).contiguous()
    offsets = weight.new_zeros(16, 1, len(weight))
    if bias is not None:
        offsets[5, 0] = bias
    return products, offsets


def convolve(
    x: Float[Tensor, "image channel height width"],
    weight: Float[Tensor, "16 channel out"],
    bias: Float[Tensor, "16 1 out"],
) -> Float[Tensor, "image out height width"]:
    """The convolution, with zeros around the map; `weight` and `bias` are as `transformed` gives them."""
    count, channels, height, width = x.shape
    rows, columns = -(-height // 2), -(-width // 2)
    padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, 1, 1 + width % 2, 1, 1 + height % 2))
    output = x.new_empty(count, 2 * rows, 2 * columns, weight.shape[2])
    at_once = max(1, TILES // (16 * rows * columns * max(channels, weight.shape[2])))
    for maps, part in zip(padded.split(at_once), output.split(at_once), strict=True):
        products = torch.baddbmm(bias, tiles(maps).flatten(2, 4).flatten(0, 1), weight)
        put_together(products.unflatten(0, (4, 4)).unflatten(2, (len(maps), rows, columns)), part)
    return output[:, :height, :width].permute(0, 3, 1, 2)


def tiles(maps: Float[Tensor, "image height width channel"]) -> Float[Tensor, "4 4 image row column channel"]:
    """B^T d B of all tiles d, which begin at every second row and column."""
    count, height, width, channels = maps.shape
    rows, columns = height // 2 - 1, width // 2 - 1
    halfway = maps.new_empty(4, count, rows, width, channels)
    result = maps.new_empty(4, 4, count, rows, columns, channels)
    differences([maps[:, i : i + 2 * rows : 2] for i in range(4)], halfway)
    for part, into in zip(halfway, result, strict=True):
        differences([part[:, :, i : i + 2 * columns : 2] for i in range(4)], into)
    return result


def differences(d: list[Tensor], into: Tensor) -> None:
    """B^T d along one axis."""
    torch.sub(d[0], d[2], out=into[0])
    torch.add(d[1], d[2], out=into[1])
    torch.sub(d[2], d[1], out=into[2])
    torch.sub(d[1], d[3], out=into[3])


def put_together(
    products: Float[Tensor, "4 4 image row column out"], output: Float[Tensor, "image height width out"]
) -> None:
    """A^T m A of all products m, each a square of the output."""
    for i, sums in enumerate(halves(products)):
        for j, half in enumerate(halves(sums)):
            output[:, i::2, j::2] = half


def halves(m: Float[Tensor, "4 ..."]) -> tuple[Tensor, Tensor]:
    """A^T m along the first axis."""
    return (m[0] + m[1]).add_(m[2]), (m[1] - m[2]).sub_(m[3])
