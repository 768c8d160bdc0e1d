"""Image sets with views (`images.views_of`), which go through the frozen network once, like the images themselves.

In a set with views the images come first, then all of them in view 1, and so on: image i in view v is row
v * images + i, so that indices of images stay what they are.
"""

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from implanting.config import MEMORY_BUDGET
from implanting.datasets.image_set import ImageSet
from implanting.images import views_of
from implanting.runtime import allocate

CHUNK = 1024
"""Images moved at once, so that a memory-mapped set is never loaded whole."""


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
