"""Views: a few fixed, slightly different pictures of each image, the same whenever they are asked for.

View 0 is the image itself, view 1 its mirror, views 2 to 5 show it moved by an eighth of its side down, up, to the
right and to the left, its edge reflected into the gap. Nothing is drawn at random: the views of an image set go through
the frozen network once, like the images themselves.

In a set with views the images come first, then all of them in view 1, and so on: image i in view v is row
v * images + i, so that indices of images stay what they are.
"""

from dataclasses import replace

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from implanting.config import MEMORY_BUDGET
from implanting.datasets.image_set import ImageSet
from implanting.runtime import allocate

CHUNK = 1024
"""Images moved at once, so that a memory-mapped set is never loaded whole."""

SHIFT = 8
"""A moved view is moved by one part in this many of the image's side."""

MOVES = ((0, 0), (0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
"""How far down and to the right each view is moved, in shifts."""

MIRRORED = 1
"""The view that is mirrored."""


def view_of(images: UInt8[Tensor, "image height width 3"], view: int) -> UInt8[Tensor, "image height width 3"]:
    """One view of each image."""
    if view == MIRRORED:
        return images.flip(2)
    (down, right), (height, width) = MOVES[view], images.shape[1:3]
    rows = reflect(torch.arange(height, device=images.device) - down * (height // SHIFT), height)
    columns = reflect(torch.arange(width, device=images.device) - right * (width // SHIFT), width)
    return images[:, rows[:, None], columns]


def views_of(images: UInt8[Tensor, "image height width 3"], views: int) -> UInt8[Tensor, "view image height width 3"]:
    """The first views of each image."""
    return torch.stack([view_of(images, view) for view in range(views)])


def add_views(image_set: ImageSet, views: int, budget: int = MEMORY_BUDGET) -> ImageSet:
    """The image set, followed by all of it in view 1, and so on: as many views as asked, the image itself included."""
    if views == 1:
        return image_set
    images = torch.from_numpy(allocate((views, *image_set.images.shape), budget))
    for start in range(0, len(image_set), CHUNK):
        images[:, start : start + CHUNK] = views_of(image_set.images[start : start + CHUNK], views)
    return replace(image_set, images=images.flatten(0, 1), labels=image_set.labels.repeat(views))


def rows_of(images: Int[Tensor, "*batch"], views: int, count: int) -> Int[Tensor, "*batch view"]:
    """Where the first views of some images stand in a set of `count` images with views."""
    return images[..., None] + count * torch.arange(views, device=images.device)


def reflect(index: Tensor, size: int) -> Tensor:
    """Indices beyond an edge, mirrored back into 0 .. size - 1 without repeating the edge."""
    index = index.abs()
    return torch.where(index >= size, 2 * (size - 1) - index, index)
