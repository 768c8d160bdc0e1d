"""Scores of a classifier on labelled images: accuracy with intervals, in total and per class, and confusions."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from implanting.fewshot import Share

NONE = -1
"""The class number of "none of these"."""


class Confusion(NamedTuple):
    """A class that is mistaken for another, and the number of images."""

    truth: int
    answer: int
    images: int


@dataclass(frozen=True)
class Score:
    """True and predicted classes of labelled images, as indices into `classes`; -1 means "none of these"."""

    classes: tuple[str, ...]
    truth: Int[np.ndarray, " image"]
    answers: Int[np.ndarray, " image"]

    @property
    def right(self) -> Bool[np.ndarray, " image"]:
        """Which answers are right; for an image of no class, that is "none of these"."""
        return np.equal(self.truth, self.answers)

    @property
    def accuracy(self) -> Share:
        """The accuracy on all images."""
        return Share(int(self.right.sum()), len(self.truth))

    @cached_property
    def confusion(self) -> Int[np.ndarray, "true given"]:
        """Number of images of each class (row) by answer (column); the last row and column are "none of these"."""
        size = len(self.classes) + 1
        counts = np.bincount((self.truth % size) * size + self.answers % size, minlength=size**2)
        return counts.reshape(size, size)

    @property
    def per_class(self) -> list[Share]:
        """The accuracy on the images of each class, then on images of no class."""
        totals = self.confusion.sum(1)
        return [Share(int(right), int(total)) for right, total in zip(self.confusion.diagonal(), totals, strict=True)]

    def confusions(self, most: int) -> list[Confusion]:
        """Return the most common wrong answers."""
        wrong = self.confusion - np.diag(self.confusion.diagonal())
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        pairs = np.stack(np.unravel_index(order, wrong.shape), axis=1).tolist()
        return [Confusion(truth, answer, int(wrong[truth, answer])) for truth, answer in pairs if wrong[truth, answer]]

    def row(self) -> dict[str, Any]:
        """Return a row for a JSON document."""
        low, high = self.accuracy.interval
        return {"mean": self.accuracy.mean, "low": low, "high": high, "images": self.accuracy.total}


def telling(score: Score, confidence: np.ndarray, count: int) -> tuple[list[int], list[int]]:
    """Choose images to show: right answers, the surest of each class in turn; and wrong answers, the surest first."""
    order = np.argsort(-confidence, kind="stable")
    right = score.right
    wrong = [int(image) for image in order if not right[image]]
    turns: dict[int, int] = {}
    ranked = []
    for image in order[right[order]]:
        turn = turns[score.truth[image]] = turns.get(score.truth[image], -1) + 1
        ranked.append((turn, int(image)))
    return [image for _, image in sorted(ranked, key=lambda one: one[0])][:count], wrong[:count]
