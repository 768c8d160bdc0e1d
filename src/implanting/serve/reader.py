"""The network's own thread: photos that wait together are read together.

Questions come before photos that are read behind the user's back, and among equals the first comes first. Whoever asks
waits for a future; nothing else touches the network.
"""

import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from enum import IntEnum

import numpy as np
from jaxtyping import UInt8

from implanting.base import BaseNetwork
from implanting.errors import ImplantingError
from implanting.serve.learning import Reading, read

TOGETHER = 32
"""Questions that are read at once, at most."""

BEHIND = 8
"""Photos that nobody waits for, read at once: few, so that a question does not wait long for them."""

Pixels = UInt8[np.ndarray, "size size 3"]
Load = Callable[[], Pixels]
"""Gives the pixels of a photo, or raises an `ImplantingError`."""


class Urgency(IntEnum):
    """The order in which photos are read."""

    QUESTION = 0
    EXAMPLE = 1
    STOP = 2


class Reader:
    """Reads photos, in a thread of its own."""

    def __init__(self, base: Callable[[], BaseNetwork]) -> None:
        self._base = base
        self._waiting: queue.PriorityQueue[tuple[Urgency, int, Load, Future[Reading]]] = queue.PriorityQueue()
        self._number = itertools.count()
        self._thread = threading.Thread(target=self._run, name="implanting-reader", daemon=True)
        self._thread.start()

    def submit(self, load: Load, urgency: Urgency) -> "Future[Reading]":
        """The reading of a photo, some time."""
        future: Future[Reading] = Future()
        self._waiting.put((urgency, next(self._number), load, future))
        return future

    def close(self) -> None:
        """End the thread once it has read what it is reading."""
        self._waiting.put((Urgency.STOP, next(self._number), _nothing, Future()))
        self._thread.join()

    def _run(self) -> None:
        while True:
            batch = self._gather()
            if any(urgency is Urgency.STOP for urgency, *_ in batch):
                return
            self._read([(load, future) for _, _, load, future in batch])

    def _gather(self) -> list[tuple[Urgency, int, Load, "Future[Reading]"]]:
        """The next batch: photos of equal urgency that wait now."""
        batch = [self._waiting.get()]
        while len(batch) < (TOGETHER if batch[0][0] is Urgency.QUESTION else BEHIND):
            try:
                following = self._waiting.get_nowait()
            except queue.Empty:
                break
            if following[0] is not batch[0][0]:
                self._waiting.put(following)
                break
            batch.append(following)
        return batch

    def _read(self, batch: list[tuple[Load, "Future[Reading]"]]) -> None:
        pixels, futures = [], []
        for load, future in batch:
            if not future.set_running_or_notify_cancel():
                continue  # nobody waits any more
            try:
                pixels.append(load())
                futures.append(future)
            except (ImplantingError, OSError) as error:
                future.set_exception(error)
        if not futures:
            return
        try:
            readings = read(self._base(), np.stack(pixels))
        except Exception as error:  # whatever it is, those who wait for an answer must get it
            for future in futures:
                future.set_exception(error)
            return
        for future, reading in zip(futures, readings, strict=True):
            future.set_result(reading)


def _nothing() -> Pixels:
    raise NotImplementedError("a mark, which is never read")
