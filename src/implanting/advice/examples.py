"""The examples of a classifier as plain arrays: labels, cross-fitted probabilities, a thumbnail per image."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from implanting.advice.copies import Thumbnails, shrunken
from implanting.classifier import ImageClassifier
from implanting.errors import ConfigError, DataError


@dataclass(frozen=True, eq=False)
class Examples:
    """The examples of a classifier, with its predictions for each example when fitted without it."""

    names: Sequence[str]
    """The name of each example: its path or, if that is not known, its class and number."""
    classes: tuple[Hashable, ...]
    labels: Int[np.ndarray, " example"]
    """The class number of each example's label."""
    probabilities: Float[np.ndarray, "example way"]
    """Cross-fitted probabilities; the row of an example that is the only one of its class is nan."""
    thumbnails: Thumbnails | None
    """Used to find copies; None if the images are not kept."""

    @property
    def asked(self) -> Bool[np.ndarray, " example"]:
        """Mask of the examples that have a cross-fitted answer."""
        return np.isfinite(self.probabilities).all(1)


def examples_of(
    classifier: ImageClassifier, names: Sequence[str] | None = None, thumbnails: Thumbnails | None = None
) -> Examples:
    """Collect the examples of a classifier; names and thumbnails are in the order in which it received them.

    Without thumbnails, copies can be found only if the classifier keeps its examples.
    """
    held_out, learned = classifier.held_out_, classifier.learned_
    if held_out is None:
        raise ConfigError(
            "the classifier has no predictions for held-out examples, as it was made by an earlier version or "
            "changed since: fit it again, or check the folder of photos"
        )
    numbers, labels, classes = held_out.numbers.numpy(), held_out.labels.numpy(), tuple(learned.classes.tolist())
    if names is not None and len(names) <= numbers.max(initial=-1):
        raise DataError(
            f"{len(names)} names are given for {numbers.max() + 1} examples; needed is one name per example"
        )
    if thumbnails is not None:
        thumbnails = thumbnails[numbers]
    elif learned.supports is not None and len(learned.supports[1]) == len(labels):
        thumbnails = shrunken(learned.supports[0])
    named = _numbered(labels, classes) if names is None else [names[number] for number in numbers]
    return Examples(named, classes, labels, held_out.probabilities.numpy(), thumbnails)


def _numbered(labels: Int[np.ndarray, " example"], classes: Sequence[Hashable]) -> list[str]:
    """Name examples like `oak, example 3`, counted within the class in their original order."""
    seen = dict.fromkeys(range(len(classes)), 0)
    names = []
    for label in labels.tolist():
        seen[label] += 1
        names.append(f"{classes[label]}, example {seen[label]}")
    return names
