"""The examples of a classifier as plain arrays: labels, cross-fitted probabilities, a thumbnail per image."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from implanting.advice.copies import Thumbnails, shrunken
from implanting.classifier import ImageClassifier
from implanting.dense_classification import left_out_cosines, prototypes
from implanting.errors import ConfigError, DataError
from implanting.images import BATCH


@dataclass(frozen=True, eq=False)
class Examples:
    """What a classifier was fitted to, and what it says of each example when it is fitted without it."""

    names: Sequence[str]
    """What each example is called: its path, or its class and number where the path is not known."""
    classes: tuple[Hashable, ...]
    labels: Int[np.ndarray, " example"]
    """The class number that each example was given."""
    probabilities: Float[np.ndarray, "example way"]
    """Cross-fitted; nan in the row of an example that is the only one of its class."""
    thumbnails: Thumbnails | None
    """By which copies are found; None where the images are not kept."""

    @property
    def asked(self) -> Bool[np.ndarray, " example"]:
        """The examples that have an answer."""
        return np.isfinite(self.probabilities).all(1)


def examples_of(classifier: ImageClassifier, names: Sequence[str] | None = None) -> Examples:
    """The examples that a classifier was fitted to; `names` in the order in which they were given."""
    classifier.check_fitted()
    learned = classifier.learned_
    if learned.supports is None:
        raise ConfigError(
            "the classifier does not hold its examples: fit it with `keep_supports`, or check the folder of photos"
        )
    images, labels = learned.supports
    if names is not None and len(names) != len(labels):
        raise DataError(f"{len(names)} names are given for {len(labels)} examples; needed is one name per example")
    pooled = torch.cat([learned.base.embed(batch).cpu().mean(1) for batch in images.split(BATCH)])
    vectors = torch.nn.functional.normalize(pooled, dim=1)
    counts = labels.bincount(minlength=len(learned.classes))
    means = prototypes(vectors, labels.argsort(stable=True), counts)
    cosines = left_out_cosines(vectors[:, None], vectors, labels, means, counts)[:, 0]
    probabilities = learned.calibration.sharpen(torch.softmax(learned.classify.tau * cosines, dim=1))
    probabilities[counts[labels] < 2] = torch.nan
    classes = tuple(learned.classes.tolist())
    return Examples(
        names if names is not None else _numbered(labels.numpy(), classes),
        classes,
        labels.numpy(),
        probabilities.numpy(),
        shrunken(images),
    )


def _numbered(labels: Int[np.ndarray, " example"], classes: Sequence[Hashable]) -> list[str]:
    """`oak, example 3`, counted within the class in the order in which the examples were given."""
    seen = dict.fromkeys(range(len(classes)), 0)
    names = []
    for label in labels.tolist():
        seen[label] += 1
        names.append(f"{classes[label]}, example {seen[label]}")
    return names
