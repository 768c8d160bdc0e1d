"""Prepare images for a network: resize them to a square, perhaps add other views, normalise their pixels.

The rules for size and pixels belong to the network as one value, `Preprocessing`, and are stored in every file.

Views are a few fixed variants of each image. View 0 is the image itself, view 1 its mirror image; views 2 to 5 shift it
by an eighth of its side down, up, right and left, filling the gap by reflection. Nothing is random.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from PIL import Image
from torch import Tensor

from implanting.images.decoding import ImageSource, decode

CHUNK = 2**20
"""Pixels counted per step."""

RESIZING = "shorter side to size, antialiased bilinear, centre crop"
"""The rule for resizing: TADAM's for miniImageNet, except for the order of the steps."""

SHIFT = 8
"""A shifted view is shifted by the image's side divided by this number."""

MOVES = ((0, 0), (0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
"""The shift of each view, down and right, in units of that distance."""

MIRRORED = 1
"""The view that is mirrored."""


@dataclass(frozen=True)
class Normalisation:
    """Mean and standard deviation of each channel, with pixel values of 0 to 1."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def __post_init__(self) -> None:
        if not all(math.isfinite(value) for value in self.mean) or not all(0 < value < math.inf for value in self.std):
            raise ValueError(f"a mean of {self.mean} and a deviation of {self.std} cannot normalise pixels")

    def __call__(self, images: UInt8[Tensor, "image height width 3"]) -> Float[Tensor, "image 3 height width"]:
        """Return normalised float32 images in channels_last memory order.

        Rows are treated as vectors of width x 3 numbers; an innermost loop over 3 channels is several times slower.
        """
        count, height, width, _ = images.shape
        rows = images.reshape(count, height, width * 3).to(torch.float32)
        mean, std = (
            torch.tensor(values, dtype=torch.float32, device=images.device).repeat(width)
            for values in (self.mean, self.std)
        )
        torch.addcmul(-mean / std, rows, 1 / (255 * std), out=rows)
        return rows.view(count, height, width, 3).permute(0, 3, 1, 2)

    @classmethod
    def of(cls, images: UInt8[Tensor, "image height width 3"]) -> "Normalisation":
        """Compute the exact statistics of a set of images from a histogram of each channel."""
        counts = _histogram(images).to(torch.float64)
        values = torch.arange(256, dtype=torch.float64) / 255
        mean = counts @ values / counts.sum(1)
        variance = (counts * (values - mean[:, None]) ** 2).sum(1) / counts.sum(1)
        std = variance.sqrt().clamp(min=1 / 255)  # may be 0 in a constant channel; less than one grey level is noise
        return cls(tuple(mean.tolist()), tuple(std.tolist()))


def _histogram(images: UInt8[Tensor, "image height width 3"]) -> Int64[Tensor, "3 256"]:
    """Count how often each channel has each value, in chunks, so that memory use stays constant."""
    counts = torch.zeros(3, 256, dtype=torch.int64)
    for chunk in images.reshape(-1, 3).split(CHUNK):
        for channel in range(3):
            counts[channel] += torch.bincount(chunk[:, channel], minlength=256).cpu()
    return counts


def resize(image: Image.Image, size: int) -> UInt8[np.ndarray, "{size} {size} 3"]:
    """Scale the shorter side of an RGB image to `size` and crop the centre, in one step."""
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    square = image.resize((size, size), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))
    return np.asarray(square)


def load(source: ImageSource, size: int) -> UInt8[np.ndarray, "{size} {size} 3"]:
    """Decode and resize an image, as every image is before a network sees it."""
    return resize(decode(source, size), size)


@dataclass(frozen=True)
class Preprocessing:
    """The size of the images, the rule for resizing to it, and the normalisation of their pixels."""

    image_size: tuple[int, int]
    """Height and width."""
    normalisation: Normalisation
    resizing: str = RESIZING
    """The rule by which images are resized to that size."""

    @property
    def square_size(self) -> int | None:
        """The side to which other images are resized, or None if the training images were not square."""
        height, width = self.image_size
        return height if height == width else None


def view_of(images: UInt8[Tensor, "image height width 3"], view: int) -> UInt8[Tensor, "image height width 3"]:
    """Return one view of each image."""
    if view == MIRRORED:
        return images.flip(2)
    (down, right), (height, width) = MOVES[view], images.shape[1:3]
    rows = reflect(torch.arange(height, device=images.device) - down * (height // SHIFT), height)
    columns = reflect(torch.arange(width, device=images.device) - right * (width // SHIFT), width)
    return images[:, rows[:, None], columns]


def views_of(images: UInt8[Tensor, "image height width 3"], views: int) -> UInt8[Tensor, "view image height width 3"]:
    """Return the first `views` views of each image."""
    return torch.stack([view_of(images, view) for view in range(views)])


def reflect(index: Tensor, size: int) -> Tensor:
    """Mirror indices beyond an edge back into 0 .. size - 1 without repeating the edge."""
    index = index.abs()
    return torch.where(index >= size, 2 * (size - 1) - index, index)
