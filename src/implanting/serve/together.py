"""Calls that wait for each other are made as one: a network answers sixteen photos sooner together than in turn.

Whoever has its turn does the work of all that wait by then, so that a call that is alone waits for nobody.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Together(Generic[Item, Answer]):
    """A function from items to answers that joins the calls of several threads."""

    def __init__(self, work: Callable[[Sequence[Item]], Sequence[Answer]]) -> None:
        self._work = work
        self._turn, self._lock = threading.Lock(), threading.Lock()
        self._waiting: list[tuple[Item, Future[Answer]]] = []

    def __call__(self, items: Sequence[Item]) -> list[Answer]:
        """Return the answer for each item."""
        futures: list[Future[Answer]] = [Future() for _ in items]
        with self._lock:
            self._waiting += zip(items, futures, strict=True)
        with self._turn:
            if not all(future.done() for future in futures):
                self._answer_all()
        return [future.result() for future in futures]

    def _answer_all(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        try:
            answers = self._work([item for item, _ in waiting])
        except BaseException as error:  # raised again in every call that waits, including this one
            for _, future in waiting:
                future.set_exception(error)
            return
        for (_, future), answer in zip(waiting, answers, strict=True):
            future.set_result(answer)
