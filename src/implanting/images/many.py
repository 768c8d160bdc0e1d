"""Decode many images with a few threads: all into one array, or in batches while the caller uses the previous batch.

An array larger than a budget is memory-mapped. Batches keep the order of the images, and the number decoded ahead is
bounded, so memory use does not depend on the number of images.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from PIL import Image
from torch import Tensor

from implanting.config import MEMORY_BUDGET
from implanting.errors import ImageError
from implanting.images.decoding import ImageSource, decode, stored_size
from implanting.images.preprocessing import RESIZING, load, resize
from implanting.runtime import Progress, allocate, silent

Item = TypeVar("Item")
Result = TypeVar("Result")

AS_STORED = "as stored"
"""The `resizing` of images that were not resized."""

DEFAULT_SIZE = 84
"""Side in pixels to which images are resized if their stored sizes differ; that of miniImageNet."""

THREADS = max(2, min(16, os.cpu_count() or 1))
"""One thread per core: Pillow releases the interpreter lock, and decoding a large JPEG is slower than the network."""

BATCH = 32
"""Images per batch; few, so that decoding overlaps with the network in small folders too."""

LOOK_AHEAD = 2
"""Batches decoded ahead of the current one: one that is ready, and one that the threads work on."""


def decode_all(
    paths: Sequence[Path],
    image_size: int | None = None,
    progress: Progress = silent,
    budget: int = MEMORY_BUDGET,
) -> tuple[UInt8[Tensor, "image height width 3"], str]:
    """Decode all images into one tensor; return it and the rule by which they were resized.

    Without `image_size`, images keep their stored size, or become 84 pixels square if their sizes differ.
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
    """Resize decoded images by the same rule; usually without a copy if their size is right already."""
    if size is None or images.shape[1:3] == (size, size):
        return torch.from_numpy(np.require(images, requirements=["C", "W"])), AS_STORED

    def read(index: int) -> np.ndarray:
        return resize(Image.fromarray(images[index]), size)

    resized = allocate((len(images), size, size, 3), budget)
    return torch.from_numpy(_fill(resized, read, progress, "resizing")), RESIZING


def _common_size(paths: Sequence[Path], progress: Progress) -> tuple[int, int]:
    """Return height and width of all images, or (0, 0) if they differ."""
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


@dataclass(frozen=True)
class Failure:
    """An image that failed to decode."""

    index: int
    source: ImageSource
    reason: str
    """The reason, which names the source."""


class Batch(NamedTuple):
    """Consecutive images."""

    indices: Int64[Tensor, " image"]
    """Their indices among all sources."""
    images: UInt8[Tensor, "image size size 3"]
    failures: list[Failure]
    """The images of this batch that failed to decode and are missing from it."""


def decode_batches(
    sources: Sequence[ImageSource],
    size: int,
    batch_size: int = BATCH,
    *,
    skip_bad: bool = False,
    workers: int = THREADS,
    progress: Progress = silent,
    doing: str = "decoding",
) -> Generator[Batch]:
    """Yield all images, `size` pixels square, in batches of `batch_size` sources; progress counts images.

    An image that fails to decode raises an error after the batches before it were yielded. With `skip_bad` it is
    reported in its batch instead, which is then smaller and may be empty.
    """
    with closing(_decoded_ahead(sources, size, batch_size, workers)) as images:
        for coming, row in progress(images, doing, len(sources)):
            if row == len(coming.rows) - 1:
                yield coming.batch(skip_bad)


def _decoded_ahead(
    sources: Iterable[ImageSource], size: int, batch_size: int, workers: int
) -> Generator[tuple["_Coming", int]]:
    """Yield the batch and the row of each image in order, once it is decoded or has failed."""
    with ThreadPoolExecutor(workers, "implanting-decode") as threads:
        ahead: deque[_Coming] = deque()
        try:
            for stretch in _stretches(enumerate(sources), batch_size):
                ahead.append(_Coming(stretch, size, threads))
                if len(ahead) > LOOK_AHEAD:
                    yield from ahead.popleft().each()
            while ahead:
                yield from ahead.popleft().each()
        finally:  # also when the caller stops early
            threads.shutdown(cancel_futures=True)


class _Coming:
    """A batch that threads are filling."""

    def __init__(self, stretch: list[tuple[int, ImageSource]], size: int, threads: ThreadPoolExecutor) -> None:
        self.stretch = stretch
        self.images = np.empty((len(stretch), size, size, 3), np.uint8)
        self.rows = [threads.submit(self._fill, row, source) for row, (_, source) in enumerate(stretch)]

    def _fill(self, row: int, source: ImageSource) -> None:
        self.images[row] = load(source, self.images.shape[1])

    def each(self) -> Iterator[tuple["_Coming", int]]:
        for row, coming in enumerate(self.rows):
            wait([coming])
            yield self, row

    def batch(self, skip_bad: bool) -> Batch:
        """Wait until the batch is complete."""
        kept, failures = [], []
        for row, (index, source) in enumerate(self.stretch):
            try:
                self.rows[row].result()
                kept.append(row)
            except ImageError as error:
                if not skip_bad:
                    raise
                failures.append(Failure(index, source, str(error)))
        images = torch.from_numpy(self.images[kept] if failures else self.images)
        return Batch(torch.tensor([self.stretch[row][0] for row in kept], dtype=torch.int64), images, failures)


def _stretches(items: Iterable[Item], length: int) -> Iterator[list[Item]]:
    iterator = iter(items)
    while stretch := list(islice(iterator, length)):
        yield stretch
