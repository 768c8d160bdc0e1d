"""Image sets with views (`images.views_of`), which the frozen network processes once, like the images themselves.

A set with views contains all images, then all of them in view 1, and so on. Image i in view v is row v * images + i, so
the indices of the images themselves do not change.
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
"""Images processed per step, so that a memory-mapped set is never loaded as a whole."""


def add_views(image_set: ImageSet, views: int, budget: int = MEMORY_BUDGET) -> ImageSet:
    """Append all images in view 1, and so on, up to `views` views, which include the image itself."""
    if views == 1:
        return image_set
    images = torch.from_numpy(allocate((views, *image_set.images.shape), budget))
    for start in range(0, len(image_set), CHUNK):
        images[:, start : start + CHUNK] = views_of(image_set.images[start : start + CHUNK], views)
    return replace(image_set, images=images.flatten(0, 1), labels=image_set.labels.repeat(views))


def rows_of(images: Int[Tensor, "*batch"], views: int, count: int) -> Int[Tensor, "*batch view"]:
    """Return the rows of the first `views` views of some images in a set of `count` images."""
    return images[..., None] + count * torch.arange(views, device=images.device)
