"""Many images in batches, decoded by threads while the caller works on the batch before.

Images keep their order. What is decoded ahead is bounded, so memory stays flat however many images there are.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from implanting.errors import ImageError
from implanting.images.decoding import ImageSource
from implanting.images.many import THREADS
from implanting.images.preprocessing import load

Item = TypeVar("Item")

LOOK_AHEAD = 2
"""Batches decoded beside the one that is worked on: one to be ready, one for the threads to be busy with."""


@dataclass(frozen=True)
class Failure:
    """An image that does not decode."""

    index: int
    source: ImageSource
    reason: str
    """Names the source."""


class Batch(NamedTuple):
    """Some of the images, in order."""

    indices: Int64[Tensor, " image"]
    """Their places among all sources."""
    images: UInt8[Tensor, "image size size 3"]
    failures: list[Failure]
    """Those of the same stretch of sources that do not decode, and are missing here."""


def decode_batches(
    sources: Iterable[ImageSource],
    size: int,
    batch_size: int,
    *,
    skip_bad: bool = False,
    workers: int = THREADS,
) -> Iterator[Batch]:
    """All images, `size` pixels square, in batches of `batch_size` sources.

    The first image that does not decode raises, once the batches before it have been given; with `skip_bad` it is
    reported in its batch, which is then smaller, and perhaps empty.
    """
    with ThreadPoolExecutor(workers, "implanting-decode") as threads:
        ahead: deque[_Coming] = deque()
        try:
            for stretch in _stretches(enumerate(sources), batch_size):
                ahead.append(_Coming(stretch, size, threads))
                if len(ahead) > LOOK_AHEAD:
                    yield ahead.popleft().batch(skip_bad)
            while ahead:
                yield ahead.popleft().batch(skip_bad)
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

    def batch(self, skip_bad: bool) -> Batch:
        """Wait for it."""
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
