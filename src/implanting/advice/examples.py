"""The examples of a classifier as plain arrays: labels, cross-fitted probabilities, a thumbnail per image."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from implanting.advice.copies import Thumbnails, shrunken
from implanting.base import BaseNetwork
from implanting.classifier import ImageClassifier
from implanting.errors import ConfigError, DataError
from implanting.fewshot import sharpness
from implanting.head import fit_head
from implanting.images import BATCH

PENALTY = 0.1
"""Of the weights of logistic regression (`docs/lab-log.md`)."""


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
    classes = tuple(learned.classes.tolist())
    return Examples(
        names if names is not None else _numbered(labels.numpy(), classes),
        classes,
        labels.numpy(),
        cross_fitted(learned.base, images, labels).numpy(),
        shrunken(images),
    )


def unit_vectors(phi: Float[Tensor, "image location dim"]) -> Float[Tensor, "image dim"]:
    """The root of the mean of phi, of unit length."""
    pooled = phi.mean(1)
    return F.normalize(pooled.sign() * pooled.abs().sqrt(), dim=1)


def cross_fitted(
    base: BaseNetwork, images: UInt8[Tensor, "image height width 3"], labels: Int[Tensor, " image"]
) -> Float[Tensor, "image way"]:
    """Probabilities of each image by logistic regression that was fitted without its fold; nan where it is alone."""
    vectors = torch.cat([unit_vectors(base.embed(batch).cpu()) for batch in images.split(BATCH)])
    scores = fit_head(vectors, vectors, labels, [vectors.shape[1]], [[1.0]], PENALTY).held_out.scores
    asked = scores.isfinite().all(1)
    power = sharpness(scores[asked].double().log_softmax(1), labels[asked]) if asked.any() else 1.0
    return torch.softmax(power * scores, dim=1)


def _numbered(labels: Int[np.ndarray, " example"], classes: Sequence[Hashable]) -> list[str]:
    """`oak, example 3`, counted within the class in the order in which the examples were given."""
    seen = dict.fromkeys(range(len(classes)), 0)
    names = []
    for label in labels.tolist():
        seen[label] += 1
        names.append(f"{classes[label]}, example {seen[label]}")
    return names
