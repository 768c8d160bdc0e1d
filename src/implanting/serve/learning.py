"""The seam to the classifier: a photo is read once, and almost everything else follows from readings.

A reading holds the vectors that one pass through the base network gives for a photo. Fitting a head, asking it,
cross-fitting and the nearest examples need no other pass, so they take a fraction of a second. Where the library's
default for a base is not a head (implants on `fc100`), a head answers until the slower classifier has been fitted to
the pixels, which readings then contain too.
"""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int, UInt8
from PIL import Image

from implanting.base import BaseNetwork
from implanting.classifier import ImageClassifier, default_way, learn_from_readings
from implanting.heatmap import Explanation
from implanting.images import resize, views_of
from implanting.serve.naming import NONE
from implanting.serve.together import Together

Vectors = Float32[np.ndarray, "photo dim"]

THUMBNAIL = 16
"""Side of the thumbnails by which `advice` finds copies."""

THUMBNAIL_BYTES = THUMBNAIL * THUMBNAIL * 3

BLANK = np.zeros((THUMBNAIL, THUMBNAIL, 3), np.uint8)

BATCH = 64
"""Photos that a classifier without a head is asked about at once."""


def side_of(base: BaseNetwork) -> int:
    """Side in pixels of the squares that the network reads."""
    return min(base.preprocessing.image_size)


@lru_cache(4)
def keeps_pixels(base: BaseNetwork) -> bool:
    """Whether the default for this base may be a classifier that is fitted to pixels, not to readings."""
    return not default_way(base, torch.tensor([1, 1])).head or not default_way(base, torch.tensor([5, 5])).head


def key_of(base: BaseNetwork) -> str:
    """The key under which readings are kept: those of another network or of another form cannot be used."""
    return f"{base.fingerprint} {'pixels' if keeps_pixels(base) else 'vectors'}"


def views_for(base: BaseNetwork, counts: Sequence[int]) -> int:
    """The number of views of each example that a head averages, given the number of examples of each class."""
    return base.usage.head.support_views(int(torch.tensor(counts).median())) if counts else 1


@dataclass(frozen=True, eq=False)
class Reading:
    """One photo, as the network read it."""

    vectors: Float32[np.ndarray, "view dim"]
    """Of the photo itself, then of its other views, where examples are so few that these are used."""
    thumbnail: UInt8[np.ndarray, "16 16 3"]
    """By which copies are found; blank if the photo was only asked about."""
    pixels: UInt8[np.ndarray, "size size 3"] | None = None
    """The input of the network, where `keeps_pixels`."""

    @classmethod
    def made_up(cls, base: BaseNetwork, vector: Float32[np.ndarray, " dim"]) -> "Reading":
        """The reading of a photo that does not exist, to measure large projects."""
        side = side_of(base)
        return cls(vector[None], BLANK, np.zeros((side, side, 3), np.uint8) if keeps_pixels(base) else None)

    @property
    def vector(self) -> Float32[np.ndarray, " dim"]:
        """The vector of the photo itself."""
        return self.vectors[0]

    def to_bytes(self) -> bytes:
        """For the store, in half precision, in which every fit is made."""
        pixels = b"" if self.pixels is None else self.pixels.tobytes()
        return self.thumbnail.tobytes() + pixels + self.vectors.astype(np.float16).tobytes()

    @classmethod
    def from_bytes(cls, content: bytes, base: BaseNetwork) -> "Reading":
        """The inverse of `to_bytes`."""
        side, dim = side_of(base), sum(base.reading_dims)
        end = THUMBNAIL_BYTES + (3 * side * side if keeps_pixels(base) else 0)
        thumbnail = np.frombuffer(content[:THUMBNAIL_BYTES], np.uint8).reshape(THUMBNAIL, THUMBNAIL, 3)
        pixels = np.frombuffer(content[THUMBNAIL_BYTES:end], np.uint8)
        vectors = np.frombuffer(content[end:], np.float16).astype(np.float32).reshape(-1, dim)
        return cls(vectors, thumbnail, pixels.reshape(side, side, 3) if len(pixels) else None)


def read(
    base: BaseNetwork, images: UInt8[np.ndarray, "photo size size 3"], views: int = 1, thumbnails: bool = True
) -> list[Reading]:
    """Read photos in one pass through the network."""
    seen = views_of(torch.from_numpy(images), views).flatten(0, 1)
    vectors = base.read(seen).unflatten(0, (views, -1)).transpose(0, 1).numpy()
    small = [resize(Image.fromarray(image), THUMBNAIL) if thumbnails else BLANK for image in images]
    pixels = list(images) if keeps_pixels(base) else [None] * len(images)
    return [Reading(*parts) for parts in zip(vectors, small, pixels, strict=True)]


def new_key() -> str:
    """A key that nothing else has."""
    return secrets.token_hex(8)


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
    readings: Vectors
    thumbnails: UInt8[np.ndarray, "photo 16 16 3"]
    held_out: Float32[np.ndarray, "photo way"]
    """Cross-fitted probabilities of each photo; nan where its class has no other photo."""
    final: bool
    """Whether the library would fit this kind of classifier to these photos; else it answers for the time being."""
    key: str = field(default_factory=new_key)
    """No other classifier has the same, of whatever project, data folder or run of the service."""

    def __eq__(self, other: object) -> bool:
        """Fits are equal if they have the same classifier, which is carried over to revisions with equal examples."""
        return isinstance(other, Fitted) and self.classifier is other.classifier

    def __hash__(self) -> int:
        return id(self.classifier)

    @cached_property
    def directions(self) -> Vectors:
        """Readings of unit length: their products are cosines."""
        return unit(self.readings)

    @cached_property
    def threshold(self) -> float:
        """The open-set score above which a photo fits no class; infinite where the photos are too few to say."""
        return self.classifier.learned_.calibration.threshold(self.classifier.refuse)

    def ask(self, readings: Sequence[Reading]) -> tuple[Float32[np.ndarray, "photo way"], Bool[np.ndarray, " photo"]]:
        """The probability of each class, and whether the photo fits none."""
        learned = self.classifier.learned_
        if learned.head is not None:
            vectors = torch.from_numpy(vectors_of(readings))
            probabilities, scores = learned.answers_by_readings(learned.head, vectors)
        else:
            answers = self._answers([reading.pixels for reading in readings if reading.pixels is not None])
            probabilities, scores = (torch.stack(parts) for parts in zip(*answers, strict=True))
        return probabilities.numpy(), (scores > self.threshold).numpy()

    @cached_property
    def _answers(self) -> Together[UInt8[np.ndarray, "size size 3"], tuple[torch.Tensor, torch.Tensor]]:
        """Probabilities and open-set score of each image, by another pass through a network: that of the implants."""

        def work(images: Sequence[np.ndarray]) -> list[tuple[torch.Tensor, torch.Tensor]]:
            batches = torch.from_numpy(np.stack(images)).split(BATCH)
            return [pair for batch in batches for pair in zip(*self.classifier.learned_.answers(batch), strict=True)]

        return Together(work)

    def nearest(self, reading: Reading, count: int) -> list[tuple[int, float]]:
        """The labelled photos most like one, with their cosines."""
        cosines = self.directions @ unit(reading.vector[None])[0]
        return [(self.photos[row], float(cosines[row])) for row in np.argsort(-cosines)[:count]]

    def left_out(self, photo: int) -> Float32[np.ndarray, " way"] | None:
        """The cross-fitted probabilities of an example; None for other photos, and where its class has no other."""
        row = self._rows.get(photo)
        return None if row is None or np.isnan(self.held_out[row]).any() else self.held_out[row]

    @cached_property
    def _rows(self) -> dict[int, int]:
        return {photo: row for row, photo in enumerate(self.photos)}

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
    """Fit a head to the readings of photos; `labels` are keys of `names`, and two of them or more have photos."""
    classes, numbers = _numbered(labels, names)
    counts = numbers.bincount()
    views = min(views_for(base, counts.tolist()), *(len(read[photo].vectors) for photo in labels))
    vectors = torch.from_numpy(np.stack([read[photo].vectors[:views] for photo in labels])).half()
    learned = learn_from_readings(base, side_of(base), vectors, numbers)
    classifier = ImageClassifier(base, unknown=NONE)
    classifier.learned_ = replace(learned, classes=np.array([names[number] for number in classes]))
    return Fitted(
        revision=revision,
        classifier=classifier,
        classes=classes,
        photos=tuple(labels),
        labels=numbers.numpy(),
        readings=vectors_of([read[photo] for photo in labels]),
        thumbnails=np.stack([read[photo].thumbnail for photo in labels]),
        held_out=_held_out(classifier, len(labels)),
        final=default_way(base, counts).head,
    )


def trained_in_place_of(head: Fitted, read: Mapping[int, Reading]) -> Fitted:
    """Fit what the library would fit to the photos of a head, implants for instance; takes seconds or minutes."""
    pixels = np.stack([read[photo].pixels for photo in head.photos])  # type: ignore[misc] # kept for such bases
    classifier = ImageClassifier(head.classifier.base_, unknown=NONE)
    classifier.fit(pixels, head.classifier.classes_[head.labels])
    return replace(head, classifier=classifier, held_out=_held_out(classifier, len(pixels)), final=True, key=new_key())


def _numbered(labels: Mapping[int, int], names: Mapping[int, str]) -> tuple[tuple[int, ...], torch.Tensor]:
    """The classes in the order of their names, and the place of each label among them."""
    classes = tuple(sorted(set(labels.values()), key=lambda number: names[number]))
    places = {number: place for place, number in enumerate(classes)}
    return classes, torch.tensor([places[label] for label in labels.values()])


def _held_out(classifier: ImageClassifier, photos: int) -> Float32[np.ndarray, "photo way"]:
    """The cross-fitted probabilities; nan where the photos are too few for any."""
    if classifier.held_out_ is None:
        return np.full((photos, len(classifier.classes_)), np.nan, np.float32)
    return classifier.held_out_.probabilities.numpy()


def load_classifier(path: Path) -> ImageClassifier:
    """The classifier of a file, in which nothing can run; without "none of these" where its photos are too few."""
    classifier = ImageClassifier.load(path)
    if math.isinf(classifier.learned_.calibration.threshold(classifier.refuse)):
        classifier.unknown = None  # as it would answer anyway, but with a warning
    return classifier


def vectors_of(readings: Sequence[Reading]) -> Vectors:
    """The vectors of photos, stacked."""
    return np.stack([reading.vector for reading in readings])


def unit(vectors: Vectors) -> Vectors:
    """The same directions, of length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
