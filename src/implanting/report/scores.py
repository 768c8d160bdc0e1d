"""How many labelled images a classifier names rightly: shares with intervals, class by class, and what is confused.

The interval is Wilson's for a proportion: it says how far the share of right answers may lie among other images like
these, for this very classifier. It says nothing of a classifier fitted to other supports.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

Z = 1.959964
"""The normal quantile of a two-sided 95 % interval."""

NONE = -1
"""The class number of "none of these"."""


class Share(NamedTuple):
    """So many of so many, and where the share among all such images lies with 95 % confidence."""

    right: int
    total: int

    @property
    def mean(self) -> float:
        """The share, a fraction; nan of nothing."""
        return self.right / self.total if self.total else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval: within 0 and 1, and sensible for few images and for shares near the ends."""
        if not self.total:
            return 0.0, 1.0
        total, mean, square = self.total, self.mean, Z**2
        centre = (mean + square / (2 * total)) / (1 + square / total)
        half = Z / (1 + square / total) * math.sqrt(mean * (1 - mean) / total + square / (4 * total**2))
        return min(mean, max(0.0, centre - half)), max(mean, min(1.0, centre + half))  # exact at the ends

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.mean:.1f} % ({100 * low:.1f} to {100 * high:.1f}, {self.total} images)"


class Confusion(NamedTuple):
    """A class that is taken for another, and for how many images."""

    truth: int
    answer: int
    images: int


@dataclass(frozen=True)
class Score:
    """True and given classes of labelled images, as numbers of `classes`; -1 stands for "none of these"."""

    classes: tuple[str, ...]
    truth: Int[np.ndarray, " image"]
    answers: Int[np.ndarray, " image"]

    @property
    def accuracy(self) -> Share:
        """Of all images."""
        return Share(int((self.truth == self.answers).sum()), len(self.truth))

    @cached_property
    def confusion(self) -> Int[np.ndarray, "true given"]:
        """Images of each class (row) by answer (column); the last of each is "none of these"."""
        size = len(self.classes) + 1
        counts = np.bincount((self.truth % size) * size + self.answers % size, minlength=size**2)
        return counts.reshape(size, size)

    @property
    def per_class(self) -> list[Share]:
        """Of the images of each class, then of those that are of none."""
        totals = self.confusion.sum(1)
        return [Share(int(right), int(total)) for right, total in zip(self.confusion.diagonal(), totals, strict=True)]

    def confusions(self, most: int) -> list[Confusion]:
        """The commonest wrong answers."""
        wrong = self.confusion - np.diag(self.confusion.diagonal())
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        pairs = np.stack(np.unravel_index(order, wrong.shape), axis=1).tolist()
        return [Confusion(truth, answer, int(wrong[truth, answer])) for truth, answer in pairs if wrong[truth, answer]]

    def row(self) -> dict[str, Any]:
        """As a row of a JSON document."""
        low, high = self.accuracy.interval
        return {"mean": self.accuracy.mean, "low": low, "high": high, "images": self.accuracy.total}


def telling(score: Score, confidence: np.ndarray, count: int) -> tuple[list[int], list[int]]:
    """Images to show: right answers, the surest of each class in turn; and wrong answers, the surest first."""
    order = np.argsort(-confidence, kind="stable")
    right = score.truth == score.answers
    wrong = [int(image) for image in order if not right[image]]
    turns: dict[int, int] = {}
    ranked = []
    for image in order[right[order]]:
        turn = turns[score.truth[image]] = turns.get(score.truth[image], -1) + 1
        ranked.append((turn, int(image)))
    return [image for _, image in sorted(ranked, key=lambda one: one[0])][:count], wrong[:count]
