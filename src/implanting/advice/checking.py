"""Find examples that look mislabelled, copies and confused classes, and estimate the accuracy to expect.

An example looks mislabelled if its cross-fitted answer differs from its label and the label has a probability below
0.1. `docs/check-and-suggest.md` reports how many planted wrong labels this finds, and `docs/lab-log.md` the other rules
that were tried.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from implanting.advice.copies import Copies, find_copies
from implanting.advice.examples import Examples
from implanting.errors import DataError
from implanting.fewshot import Share

DOUBTED = 0.1
"""An example looks mislabelled if the cross-fitted probability of its label is below this."""


@dataclass(frozen=True)
class Mislabelled:
    """An example that looks like another class than its label; classes are numbers."""

    example: int
    label: int
    looks_like: int
    probability: float
    """The probability of the class that it looks like."""
    own_probability: float
    """The probability of its label."""


@dataclass(frozen=True)
class Confused:
    """Two classes that are mistaken for each other, counted in both directions among cross-fitted answers."""

    classes: tuple[int, int]
    mistakes: int
    examples: int
    """Number of examples of the two classes that have an answer."""


@dataclass(frozen=True)
class Findings:
    """All findings about the examples; the most important come first in every list."""

    expected: Share
    """The share of right cross-fitted answers: each example was classified by a classifier fitted without it."""
    per_class: tuple[Share, ...]
    mislabelled: tuple[Mislabelled, ...]
    copies: tuple[Copies, ...]
    """Groups of copies, by the indices of examples; also empty if the images are not kept."""
    confused: tuple[Confused, ...]

    @property
    def unasked(self) -> tuple[int, ...]:
        """Classes without a cross-fitted answer, because they have one example each."""
        return tuple(number for number, share in enumerate(self.per_class) if not share.total)


def check(examples: Examples) -> Findings:
    """Check the examples and return all findings."""
    if len(examples.labels) < 2 or len(set(examples.labels.tolist())) < 2:
        raise DataError(
            f"there are {len(examples.labels)} examples of {len(set(examples.labels.tolist()))} class; "
            "to check them, two classes or more are needed"
        )
    given, labels = examples.probabilities[examples.asked], examples.labels[examples.asked]
    answers = given.argmax(1)
    way = len(examples.classes)
    confusion = np.bincount(labels * way + answers, minlength=way**2).reshape(way, way)
    per_class = [Share(int(confusion[number, number]), int(confusion[number].sum())) for number in range(way)]
    return Findings(
        expected=Share(int((answers == labels).sum()), len(labels)),
        per_class=tuple(per_class),
        mislabelled=_mislabelled(examples),
        copies=() if examples.thumbnails is None else find_copies(examples.thumbnails, examples.labels),
        confused=_confused(confusion),
    )


def _mislabelled(examples: Examples) -> tuple[Mislabelled, ...]:
    asked = np.flatnonzero(examples.asked)
    given, labels = examples.probabilities[asked], examples.labels[asked]
    rows = np.arange(len(asked))
    own, answers, sure = given[rows, labels], given.argmax(1), given.max(1)
    suspects = np.flatnonzero((answers != labels) & (own < DOUBTED))
    suspects = suspects[np.argsort(own[suspects], kind="stable")]
    return tuple(
        Mislabelled(int(asked[row]), int(labels[row]), int(answers[row]), float(sure[row]), float(own[row]))
        for row in suspects
    )


def _confused(confusion: Int[np.ndarray, "true given"]) -> tuple[Confused, ...]:
    both, totals = np.triu(confusion + confusion.T, 1), confusion.sum(1)
    pairs = [(int(one), int(other)) for one, other in np.argwhere(both)]
    found = [Confused(pair, int(both[pair]), int(totals[list(pair)].sum())) for pair in pairs]
    return tuple(sorted(found, key=lambda one: (-one.mistakes, -one.mistakes / one.examples)))
