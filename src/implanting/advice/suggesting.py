"""Which photos to label next: those the classifier is unsure of, and which are unlike each other.

Uncertainty alone would pick near-duplicates of one hard photo. So photos are taken one by one: the next is the one
whose uncertainty times its distance from those already taken is largest.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from implanting.classifier import ImageClassifier
from implanting.config import require
from implanting.errors import DataError
from implanting.images import Failure, ImageSource, decode_batches, list_sources
from implanting.runtime import Progress, silent


@dataclass(frozen=True)
class Suggestion:
    """A photo that is worth labelling, with the two likeliest classes and their probabilities."""

    source: ImageSource
    likeliest: tuple[tuple[Any, float], tuple[Any, float]]


def suggest(
    classifier: ImageClassifier, images: Any, count: int = 20, *, progress: Progress = silent
) -> tuple[list[Suggestion], list[Failure]]:
    """The `count` images to label next, the most useful first; and the images that do not decode."""
    require(count >= 1, "count", count, "1 or more")
    classifier.check_fitted()
    sources, learned = list_sources(images), classifier.learned_
    if not sources:
        raise DataError("there is no image to suggest from; one or more are needed")
    indices, given, vectors, failures = [], [], [], []
    for batch in decode_batches(sources, learned.size, skip_bad=True, progress=progress, doing="looking at photos"):
        features = learned.features(batch.images)
        given.append(learned.probabilities(learned.cosines(features)))
        vectors.append(torch.nn.functional.normalize(features.mean(1), dim=1))
        indices += batch.indices.tolist()
        failures += batch.failures
    if not indices:
        raise DataError(f"none of the {len(sources)} images decodes, such as: {failures[0].reason}")
    probabilities = torch.cat(given)
    best = probabilities.topk(2)
    names = learned.classes[best.indices.numpy()].tolist()
    ranked = [
        (tuple(zip(labels, values, strict=True))) for labels, values in zip(names, best.values.tolist(), strict=True)
    ]
    chosen = choose(probabilities.numpy(), torch.cat(vectors).numpy(), count)
    return [Suggestion(sources[indices[row]], ranked[row]) for row in chosen], failures


def choose(
    probabilities: Float[np.ndarray, "image way"], vectors: Float[np.ndarray, "image dim"], count: int
) -> list[int]:
    """Rows of images that are uncertain and unlike each other, one by one."""
    uncertain = uncertainty(probabilities)
    taken = [int(uncertain.argmax())]
    distance = 1 - vectors @ vectors[taken[0]]
    while len(taken) < min(count, len(vectors)):
        worth = uncertain * distance.clip(0)
        worth[taken] = -1
        taken.append(int(worth.argmax()))
        distance = np.minimum(distance, 1 - vectors @ vectors[taken[-1]])
    return taken


def uncertainty(probabilities: Float[np.ndarray, "image way"]) -> Float[np.ndarray, " image"]:
    """One minus the lead of the likeliest class over the second: from 0, certain, to 1, a tie."""
    second, first = np.partition(probabilities, -2, axis=1)[:, -2:].T
    return 1 - (first - second)
