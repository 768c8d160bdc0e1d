"""The seam to the classifier: a photo is read once, and everything else follows from readings.

A reading is the vector that one pass through the base network gives for a photo. Fitting, asking, cross-fitting and the
nearest examples need no other pass through the network, so they take a fraction of a second.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int, UInt8
from PIL import Image

from implanting.base import BaseNetwork
from implanting.classifier import ImageClassifier, learn_from_readings
from implanting.heatmap import Explanation
from implanting.images import resize

NONE = "none of these"
"""The answer for a photo that fits no class."""

Readings = Float32[np.ndarray, "photo dim"]

THUMBNAIL = 16
"""Side of the thumbnails by which `advice` finds copies."""

THUMBNAIL_BYTES = THUMBNAIL * THUMBNAIL * 3


def side_of(base: BaseNetwork) -> int:
    """Side in pixels of the squares that the network reads."""
    return min(base.preprocessing.image_size)


@dataclass(frozen=True, eq=False)
class Reading:
    """One photo, as the network read it."""

    vector: Float32[np.ndarray, " dim"]
    thumbnail: UInt8[np.ndarray, "16 16 3"]
    """By which copies are found."""

    def to_bytes(self) -> bytes:
        """For the store, in half precision, in which every fit is made."""
        return self.thumbnail.tobytes() + self.vector.astype(np.float16).tobytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Reading":
        """The inverse."""
        thumbnail = np.frombuffer(content[:THUMBNAIL_BYTES], np.uint8).reshape(THUMBNAIL, THUMBNAIL, 3)
        return cls(np.frombuffer(content[THUMBNAIL_BYTES:], np.float16).astype(np.float32), thumbnail)


def read(base: BaseNetwork, images: UInt8[np.ndarray, "photo size size 3"]) -> list[Reading]:
    """One pass through the network."""
    vectors = base.read(torch.from_numpy(images)).numpy()
    thumbnails = [resize(Image.fromarray(image), THUMBNAIL) for image in images]
    return [Reading(*both) for both in zip(vectors, thumbnails, strict=True)]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A classifier of the labelled photos of a project at one revision."""

    revision: int
    classifier: ImageClassifier
    classes: tuple[int, ...]
    """The numbers that the store has for the classes, in the classifier's order."""
    photos: tuple[int, ...]
    labels: Int[np.ndarray, " photo"]
    """Places in `classes`."""
    readings: Readings
    thumbnails: UInt8[np.ndarray, "photo 16 16 3"]
    held_out: Float32[np.ndarray, "photo way"]
    """Cross-fitted probabilities of each photo; nan where its class has no other photo."""

    @cached_property
    def directions(self) -> Readings:
        """Readings of unit length: their products are cosines."""
        return unit(self.readings)

    @cached_property
    def threshold(self) -> float:
        """The open-set score above which a photo fits no class; infinite where the photos are too few to say."""
        return self.classifier.learned_.calibration.threshold(self.classifier.refuse)

    def ask(self, readings: Readings) -> tuple[Float32[np.ndarray, "photo way"], Bool[np.ndarray, " photo"]]:
        """The probability of each class, and whether the photo fits none."""
        learned = self.classifier.learned_
        if learned.head is None:
            raise NotImplementedError("whatever is fitted to readings has a head")
        probabilities, scores = learned.answers_by_readings(learned.head, torch.from_numpy(readings))
        return probabilities.numpy(), (scores > self.threshold).numpy()

    def nearest(self, reading: Float32[np.ndarray, " dim"], count: int) -> list[tuple[int, float]]:
        """The labelled photos most like one, with their cosines."""
        cosines = self.directions @ unit(reading[None])[0]
        return [(self.photos[row], float(cosines[row])) for row in np.argsort(-cosines)[:count]]

    def explain(self, picture: Path) -> Explanation:
        """Heat maps of a photo, one per class."""
        return self.classifier.explain(picture, top=len(self.classes), finer=2)


def fit(
    base: BaseNetwork,
    revision: int,
    read: Mapping[int, Reading],
    labels: Mapping[int, int],
    names: Mapping[int, str],
) -> Fitted:
    """Learn from the readings of photos; `labels` are keys of `names`, and two of them or more have photos."""
    readings = np.stack([read[photo].vector for photo in labels])
    thumbnails = np.stack([read[photo].thumbnail for photo in labels])
    classes = sorted(set(labels.values()), key=lambda number: names[number])
    places = {number: place for place, number in enumerate(classes)}
    numbers = torch.tensor([places[label] for label in labels.values()])
    learned = learn_from_readings(base, side_of(base), torch.from_numpy(readings)[:, None].half(), numbers)
    if learned.held_out is None:
        raise NotImplementedError("whatever is fitted to readings has answers for its own examples")
    classifier = ImageClassifier(base, unknown=NONE)
    classifier.learned_ = replace(learned, classes=np.array([names[number] for number in classes]))
    held_out = learned.held_out.probabilities.numpy()
    return Fitted(revision, classifier, tuple(classes), tuple(labels), numbers.numpy(), readings, thumbnails, held_out)


def load_classifier(path: Path) -> ImageClassifier:
    """The classifier of a file, in which nothing can run; without "none of these" where its photos are too few."""
    classifier = ImageClassifier.load(path)
    if math.isinf(classifier.learned_.calibration.threshold(classifier.refuse)):
        classifier.unknown = None  # as it would answer anyway, but with a warning
    return classifier


def unit(vectors: Readings) -> Readings:
    """The same directions, of length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
