"""Lines about the examples, printed by `fit` and `check`."""

from typing import Any

import numpy as np

from implanting.advice import Examples, Findings, Mislabelled, find_copies, thumbnails_of
from implanting.console import show_progress
from implanting.images import LabelledImages

NAMED = 5
"""The largest number of groups of copies that a line names; the rest are counted."""


def remarks_on_copies(found: LabelledImages) -> list[str]:
    """Report copies of one image, except equal files in two classes, which `found.remarks` already reports."""
    known = [set(group) for group in found.copies]
    _, labels = np.unique(found.labels, return_inverse=True)
    across: list[str] = []
    within: list[str] = []
    for group in find_copies(thumbnails_of(found.paths, show_progress), labels):
        paths = [found.paths[image] for image in group.images]
        if not any(set(paths) <= equal for equal in known):
            (across if group.across else within).append(" = ".join(map(str, paths)))
    remarks = []
    if across:
        remarks.append(
            f"the same image, saved twice, is in two classes, which no classifier can learn: {_some(across)}"
        )
    if within:
        remarks.append(f"copies within a class count as further examples and teach nothing: {_some(within)}")
    return remarks


def _some(groups: list[str]) -> str:
    further = f"; and {len(groups) - NAMED} more" * (len(groups) > NAMED)
    return "; ".join(groups[:NAMED]) + further


HOW = "each photo was classified by a classifier that was fitted without it"


def expected_accuracy(findings: Findings, unknown: object = None, refuse: float = 0.0) -> str:
    """Describe the accuracy to expect, with its interval, and how it was measured.

    A classifier with a label for `unknown` images also refuses some images of known classes, which is not counted.
    """
    asked = findings.expected
    if not asked.total:
        return "the accuracy to expect is not known: it takes a class with two photos"
    refused = (
        "" if unknown is None else f"; of photos like these, about {100 * refuse:g} % more are answered {unknown!r}"
    )
    return f"accuracy to expect: {asked}; {HOW}{refused}"


def doubt(examples: Examples, one: Mislabelled) -> list[str]:
    """Make the row of an example that looks mislabelled: its name, its class, and the class that it looks like."""
    label, looks_like = (str(examples.classes[number]) for number in (one.label, one.looks_like))
    return [examples.names[one.example], label, f"{looks_like} {one.probability:.2f}"]


def document(examples: Examples, findings: Findings) -> dict[str, Any]:
    """Convert all findings to plain values."""
    low, high = findings.expected.interval
    names, classes = examples.names, examples.classes
    return {
        "expected": {"mean": findings.expected.mean, "low": low, "high": high, "images": findings.expected.total}
        if findings.expected.total
        else None,
        "mislabelled": [
            {"image": names[one.example], "class": classes[one.label], "looks_like": classes[one.looks_like]}
            | {"probability": one.probability, "own_probability": one.own_probability}
            for one in findings.mislabelled
        ],
        "copies": [
            {"images": [names[image] for image in group.images], "across": group.across, "similarity": group.similarity}
            for group in findings.copies
        ],
        "confused": [
            {"classes": [classes[number] for number in pair.classes]}
            | {"mistakes": pair.mistakes, "images": pair.examples}
            for pair in findings.confused
        ],
        "unasked": [classes[number] for number in findings.unasked],
    }
