"""Many images into one uint8 array, decoded once by a few threads; memory-mapped when larger than a budget."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from implanting.config import MEMORY_BUDGET
from implanting.images.decoding import decode, stored_size
from implanting.images.preprocessing import RESIZING, load, resize
from implanting.runtime import Progress, allocate, silent

Item = TypeVar("Item")
Result = TypeVar("Result")

AS_STORED = "as stored"
"""The `resizing` of images that were not resized."""

DEFAULT_SIZE = 84
"""Side in pixels of images whose stored sizes differ: miniImageNet's."""

THREADS = max(2, min(16, os.cpu_count() or 1))
"""One a core: Pillow frees the interpreter while it decodes, and a large JPEG takes longer than its network does."""


def decode_all(
    paths: Sequence[Path],
    image_size: int | None = None,
    progress: Progress = silent,
    budget: int = MEMORY_BUDGET,
) -> tuple[UInt8[Tensor, "image height width 3"], str]:
    """All images in one tensor, and the rule by which they were resized.

    Without `image_size` they stay as stored, or become 84 pixels square if their sizes differ.
    """
    height, width = (image_size, image_size) if image_size else _common_size(paths, progress)
    as_stored = image_size is None and (height, width) != (0, 0)
    side = image_size or DEFAULT_SIZE
    shape = (len(paths), height, width, 3) if as_stored else (len(paths), side, side, 3)

    def read(index: int) -> np.ndarray:
        return np.asarray(decode(paths[index])) if as_stored else load(paths[index], side)

    images = _fill(allocate(shape, budget), read, progress, "decoding")
    return torch.from_numpy(images), AS_STORED if as_stored else RESIZING


def resize_all(
    images: UInt8[np.ndarray, "image height width 3"],
    size: int | None,
    progress: Progress = silent,
    budget: int = MEMORY_BUDGET,
) -> tuple[UInt8[Tensor, "image new_height new_width 3"], str]:
    """Decoded images by the same rule; as a rule without copying where nothing is to be resized."""
    if size is None or images.shape[1:3] == (size, size):
        return torch.from_numpy(np.require(images, requirements=["C", "W"])), AS_STORED

    def read(index: int) -> np.ndarray:
        return resize(Image.fromarray(images[index]), size)

    resized = allocate((len(images), size, size, 3), budget)
    return torch.from_numpy(_fill(resized, read, progress, "resizing")), RESIZING


def _common_size(paths: Sequence[Path], progress: Progress) -> tuple[int, int]:
    """Height and width of all images, or (0, 0) if they differ."""
    sizes = iter(progress(_threaded(stored_size, paths), "comparing image sizes", len(paths)))
    first = next(sizes, (0, 0))
    return first if all(size == first for size in sizes) else (0, 0)


def _fill(images: np.ndarray, read: Callable[[int], np.ndarray], progress: Progress, description: str) -> np.ndarray:
    def place(index: int) -> None:
        images[index] = read(index)

    for _ in progress(_threaded(place, range(len(images))), description, len(images)):
        pass
    return images


def _threaded(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
    with ThreadPoolExecutor(THREADS) as threads:
        yield from threads.map(function, items)
