"""The network's own thread: photos that wait together are read together.

Announced questions, whose photos are still being decoded, are waited for a few milliseconds: one pass with sixteen
photos costs less than sixteen passes, and a question that is alone waits for nothing.

Questions come before examples, which are read in the background, and among equals the first comes first. Callers wait
for a future. When the reader is closed, it ends with the batch that it is reading, and all other futures are cancelled.
"""

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from enum import IntEnum

import numpy as np
from jaxtyping import UInt8

from implanting.base import BaseNetwork
from implanting.errors import ImplantingError
from implanting.serve.learning import Reading, read

TOGETHER = 32
"""Questions that are read at once, at most."""

BEHIND = 8
"""Examples that are read at once: few, so that a question does not wait long for them."""

GATHERING = 0.02
"""Seconds for which the network waits for announced questions."""

Pixels = UInt8[np.ndarray, "size size 3"]
Load = Callable[[], Pixels]
"""Gives the pixels of a photo, or raises an `ImplantingError`."""


class Urgency(IntEnum):
    """The order in which photos are read."""

    STOP = 0
    QUESTION = 1
    EXAMPLE = 2


_Waiting = tuple[Urgency, int, int, Load, "Future[Reading]"]
"""Urgency, a number that grows, the number of views, how to load the photo, and who waits."""


class Reader:
    """Reads photos, in a thread of its own."""

    def __init__(self, base: Callable[[], BaseNetwork]) -> None:
        self._base = base
        self._waiting: queue.PriorityQueue[_Waiting] = queue.PriorityQueue()
        self._number = itertools.count()
        self._lock, self._announced, self._closed = threading.Lock(), 0, False
        self._thread = threading.Thread(target=self._run, name="implanting-reader", daemon=True)
        self._thread.start()

    def submit(self, load: Load, urgency: Urgency, views: int = 1) -> "Future[Reading]":
        """The reading of a photo, with its vectors of this many views or more; cancelled if the reader is closed."""
        future: Future[Reading] = Future()
        with self._lock:  # so that nothing is put into the queue once it has been emptied
            if not self._closed:
                self._waiting.put((urgency, next(self._number), views, load, future))
                return future
        future.cancel()
        return future

    @contextmanager
    def announced(self) -> Iterator[None]:
        """Announce a question, which is to be submitted as soon as this ends."""
        with self._lock:
            self._announced += 1
        try:
            yield
        finally:
            with self._lock:
                self._announced -= 1

    def close(self) -> None:
        """End the thread once it has read what it is reading, and cancel what still waits."""
        with self._lock:
            self._closed = True
            self._waiting.put((Urgency.STOP, next(self._number), 1, _nothing, Future()))
        self._thread.join()
        while not self._waiting.empty():
            *_, future = self._waiting.get()
            future.cancel()

    def _run(self) -> None:
        while (batch := self._gather())[0][0] is not Urgency.STOP:
            self._read(batch)

    def _gather(self) -> "list[_Waiting]":
        """The next batch: photos of equal urgency that wait now, or that are announced."""
        batch = [self._waiting.get()]
        question, end = batch[0][0] is Urgency.QUESTION, time.monotonic() + GATHERING
        while len(batch) < (TOGETHER if question else BEHIND):
            try:
                left = end - time.monotonic() if question and self._announced else 0.0
                following = self._waiting.get(timeout=left) if left > 0 else self._waiting.get_nowait()
            except queue.Empty:
                break
            if following[0] is not batch[0][0]:
                self._waiting.put(following)
                break
            batch.append(following)
        return batch

    def _read(self, batch: "list[_Waiting]") -> None:
        views, examples = max(views for _, _, views, *_ in batch), batch[0][0] is Urgency.EXAMPLE
        pixels, futures = [], []
        for *_, load, future in batch:
            if not future.set_running_or_notify_cancel():
                continue  # the caller has given up
            try:
                pixels.append(load())
                futures.append(future)
            except (ImplantingError, OSError) as error:
                future.set_exception(error)
        if not futures:
            return
        try:
            readings = read(self._base(), np.stack(pixels), views, thumbnails=examples)
        except Exception as error:  # whatever it is, the callers must not wait for ever
            for future in futures:
                future.set_exception(error)
            return
        for future, reading in zip(futures, readings, strict=True):
            future.set_result(reading)


def _nothing() -> Pixels:
    raise NotImplementedError("a mark of the end is never read")
