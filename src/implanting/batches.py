"""The batches of stage 1: which images each step sees, and how they are changed.

A batch is a function of (seed, step). Its images are the next of an endless row of permutations of the base images,
and its augmentation is drawn from a generator of its own, so that any step can be made again by itself.
"""

import hashlib
from functools import lru_cache

import torch
from jaxtyping import Int, UInt8
from torch import Generator, Tensor

from implanting.augment import augment
from implanting.config import AugmentConfig
from implanting.datasets import ImageSet


@lru_cache(maxsize=2)
def permutation(images: int, seed: int, epoch: int) -> Int[Tensor, "image"]:
    """The order of the images in one epoch."""
    return torch.randperm(images, generator=generator_of(seed, 0, epoch))


def generator_of(seed: int, stream: int, number: int) -> Generator:
    """The generator of one epoch's order (stream 0) or one step's augmentation (stream 1).

    PyTorch's generator looks at the lower 32 bits of its seed only, so the three numbers are hashed into these.
    """
    digest = hashlib.sha256(f"{seed} {stream} {number}".encode()).digest()
    return Generator().manual_seed(int.from_bytes(digest[:4], "little"))


def batch_indices(step: int, batch_size: int, images: int, seed: int) -> Int[Tensor, "image"]:
    """The images of a step; a batch may end one epoch and begin the next."""
    first, last = step * batch_size, (step + 1) * batch_size
    parts = []
    for epoch in range(first // images, (last - 1) // images + 1):
        order = permutation(images, seed, epoch)
        parts.append(order[max(first - epoch * images, 0) : last - epoch * images])
    return torch.cat(parts)


def batch(
    image_set: ImageSet, config: AugmentConfig, batch_size: int, seed: int, step: int
) -> tuple[UInt8[Tensor, "image height width 3"], Int[Tensor, "image"]]:
    """The augmented images of a step and their labels."""
    indices = batch_indices(step, batch_size, len(image_set), seed)
    return augment(image_set.images[indices], config, generator_of(seed, 1, step)), image_set.labels[indices]
