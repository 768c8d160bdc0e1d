"""The batches of stage 1: which images each step sees, and how they are changed.

A batch is a function of (seed, step). Its images are the next of an endless row of permutations of the base images,
and its augmentation is drawn from a generator of its own, so that any step can be made again by itself.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from implanting.config import AugmentConfig
from implanting.datasets import ImageSet
from implanting.pretraining.augment import augment
from implanting.runtime import Stream, generator_of


@lru_cache(maxsize=2)
def _permutation(images: int, seed: int, epoch: int) -> Int[Tensor, " image"]:
    """The order of the images in one epoch."""
    return torch.randperm(images, generator=generator_of(seed, Stream.ORDER, epoch))


def batch_indices(step: int, batch_size: int, images: int, seed: int) -> Int[Tensor, " image"]:
    """The images of a step; a batch may end one epoch and begin the next."""
    first, last = step * batch_size, (step + 1) * batch_size
    parts = []
    for epoch in range(first // images, (last - 1) // images + 1):
        order = _permutation(images, seed, epoch)
        parts.append(order[max(first - epoch * images, 0) : last - epoch * images])
    return torch.cat(parts)


class Batch(NamedTuple):
    """The images of one step."""

    images: UInt8[Tensor, "image height width 3"]
    """The images, augmented."""
    labels: Int[Tensor, " image"]
    indices: Int[Tensor, " image"]
    """The indices of the images among the base images."""


def batch(image_set: ImageSet, config: AugmentConfig, batch_size: int, seed: int, step: int) -> Batch:
    """The batch of a step."""
    indices = batch_indices(step, batch_size, len(image_set), seed)
    images = augment(image_set.images[indices], config, generator_of(seed, Stream.AUGMENTATION, step))
    return Batch(images, image_set.labels[indices], indices)
