"""Findings as plain sentences that say what to do, the most useful first."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from implanting.advice.checking import Findings
from implanting.advice.examples import Examples

FEW = 5
"""Below this many photos of a class, each further photo helps most."""

OFTEN = 0.2
"""Share of a class's photos taken for one other class from which this is said."""


@dataclass(frozen=True)
class Sentence:
    """One piece of advice, and the number of the class that it is about; None if it is about all of them."""

    text: str
    about: int | None


def sentences(examples: Examples, findings: Findings) -> list[Sentence]:
    """Return the advice that follows from the findings about the examples."""
    return [*_labels(findings), *_mistakes(examples, findings), *_small_classes(examples)]


def _labels(findings: Findings) -> Iterator[Sentence]:
    if across := sum(one.across for one in findings.copies):
        keep = "keep it in the right one" if across == 1 else "keep each in the right one"
        yield Sentence(f"{_photos(across)} {_are(across)} in more than one class: {keep}.", None)
    if wrong := len(findings.mislabelled):
        yield Sentence(f"{_photos(wrong)} may have the wrong label: look at the list below.", None)


def _mistakes(examples: Examples, findings: Findings) -> Iterator[Sentence]:
    asked, names = examples.asked, [str(name) for name in examples.classes]
    for number, share in enumerate(findings.per_class):
        answers = examples.probabilities[asked & (examples.labels == number)].argmax(1)
        mistaken = np.bincount(answers[answers != number], minlength=len(names))
        other = int(mistaken.argmax())
        if mistaken[other] >= 2 and mistaken[other] >= OFTEN * share.total:
            said = f"{mistaken[other]} of {_photos(share.total, names[number])} were taken for {names[other]}"
            yield Sentence(f"{said}: add {names[number]} photos that differ from {names[other]}.", number)


def _small_classes(examples: Examples) -> Iterator[Sentence]:
    counts = np.bincount(examples.labels, minlength=len(examples.classes)).tolist()
    for number, (name, count) in enumerate(zip(examples.classes, counts, strict=True)):
        if count < FEW:
            more = FEW - count
            yield Sentence(f"{name} has {_photos(count)}: add {more} more, unlike those that are there.", number)


def _photos(count: int, of: str = "") -> str:
    return f"{count} {of + ' ' if of else ''}photo{'s' * (count != 1)}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
