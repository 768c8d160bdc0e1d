"""Suggest which photos to label next: those that the classifier is unsure about and that differ from each other.

Photos are clustered into as many groups as suggestions are wanted (k-means on unit vectors, each photo weighted by the
square root of its uncertainty), and the photo nearest to each centre is suggested. With few examples per class,
uncertainty alone did worse than random photos: it picks odd photos, many of them similar (`docs/lab-log.md`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from implanting.classifier import ImageClassifier, Learned
from implanting.config import require
from implanting.errors import DataError
from implanting.images import Failure, ImageSource, decode_batches, list_sources
from implanting.runtime import Progress, silent

ROUNDS = 8
"""Number of k-means steps."""

LEAST = 1e-3
"""The smallest weight of a photo, for those that the classifier is certain about."""


@dataclass(frozen=True)
class Suggestion:
    """A photo that is worth labelling, with the two likeliest classes and their probabilities."""

    source: ImageSource
    likeliest: tuple[tuple[Any, float], ...]


def suggest(
    classifier: ImageClassifier, images: Any, count: int = 20, *, progress: Progress = silent
) -> tuple[list[Suggestion], list[Failure]]:
    """Return the `count` images to label next, the least certain first, and the images that failed to decode."""
    require(count >= 1, "count", count, "1 or more")
    classifier.check_fitted()
    sources, learned = list_sources(images), classifier.learned_
    if not sources:
        raise DataError("there is no image to suggest from; one or more are needed")
    indices, given, vectors, failures = [], [], [], []
    for batch in decode_batches(sources, learned.size, skip_bad=True, progress=progress, doing="looking at photos"):
        probabilities, read = _looked_at(learned, batch.images)
        given.append(probabilities)
        vectors.append(F.normalize(read, dim=1))
        indices += batch.indices.tolist()
        failures += batch.failures
    if not indices:
        raise DataError(f"none of the {len(sources)} images decodes, such as: {failures[0].reason}")
    everything = torch.cat(given)
    best = everything.topk(2)
    names = learned.classes[best.indices.numpy()].tolist()
    chosen = choose(everything.numpy(), torch.cat(vectors).numpy(), count)
    suggested = [
        Suggestion(sources[indices[row]], tuple(zip(names[row], best.values[row].tolist(), strict=True)))
        for row in chosen
    ]
    return suggested, failures


def _looked_at(
    learned: Learned, images: UInt8[Tensor, "image height width 3"]
) -> tuple[Float[Tensor, "image way"], Float[Tensor, "image dim"]]:
    """Compute, in one pass through the network, the probabilities of images and the vectors used to compare them."""
    if learned.head is not None:
        vectors = learned.base.read(images)
        return learned.answers_by_readings(learned.head, vectors)[0], vectors
    features = learned.features(images)
    return learned.probabilities(learned.cosines(features)), features.mean(1)


def choose(
    probabilities: Float[np.ndarray, "image way"], vectors: Float[np.ndarray, "image dim"], count: int, seed: int = 0
) -> list[int]:
    """Choose uncertain images that differ from each other: the centre of each cluster, the least certain first."""
    uncertain = uncertainty(probabilities)
    weights = np.sqrt(uncertain) + LEAST
    means = vectors[_spread(vectors, weights, min(count, len(vectors)), np.random.default_rng(seed))]
    for _ in range(ROUNDS):
        nearest = (vectors @ means.T).argmax(1)
        sums = np.zeros_like(means)
        np.add.at(sums, nearest, weights[:, None] * vectors)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        means = np.where(lengths > 0, sums / np.maximum(lengths, 1e-12), means)
    cosines = vectors @ means.T
    nearest = cosines.argmax(1)
    middles = [members[cosines[members, cluster].argmax()] for cluster, members in _members(nearest)]
    rest = np.setdiff1d(np.argsort(-uncertain, kind="stable"), middles, assume_unique=True)
    chosen = np.concatenate([np.array(middles, int), rest])[:count]  # clusters can be empty if images are equal
    return sorted(chosen.tolist(), key=lambda row: -uncertain[row])


def _members(nearest: Int[np.ndarray, " image"]) -> list[tuple[int, Int[np.ndarray, " some"]]]:
    return [(int(cluster), np.flatnonzero(nearest == cluster)) for cluster in np.unique(nearest)]


def _spread(
    vectors: Float[np.ndarray, "image dim"],
    weights: Float[np.ndarray, " image"],
    count: int,
    generator: np.random.Generator,
) -> list[int]:
    """Choose the initial centres (k-means++): draw each by its weight and its distance from the previous ones."""
    taken = [int(generator.choice(len(vectors), p=weights / weights.sum()))]
    distance = 1 - vectors @ vectors[taken[0]]
    while len(taken) < count:
        worth = weights * distance.clip(1e-9)
        worth[taken] = 0
        taken.append(int(generator.choice(len(vectors), p=worth / worth.sum())))
        distance = np.minimum(distance, 1 - vectors @ vectors[taken[-1]])
    return taken


def uncertainty(probabilities: Float[np.ndarray, "image way"]) -> Float[np.ndarray, " image"]:
    """One minus the margin of the likeliest class over the second: 0 is certain, 1 is a tie."""
    second, first = np.partition(probabilities, -2, axis=1)[:, -2:].T
    return 1 - (first - second)
