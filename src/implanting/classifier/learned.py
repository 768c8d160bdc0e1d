"""`Learned`: the result of a fit as one flat value, which the classifier holds, answers with, and saves unchanged.

With prototypes, a class is the mean of its pooled supports and their number. Adding or removing images or classes
therefore costs only the work on those images; implants keep the weights they were trained to. A head is fitted to all
classes at once, so we keep the readings of its supports and fit it again whenever classes or images change.
"""

import dataclasses
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float16, Int, UInt8
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.classifier.labels import class_numbers
from implanting.config import LARGEST_SIDE, require
from implanting.dense_classification import PrototypeClassifier, probabilities, prototypes, scaled_cosine
from implanting.errors import ConfigError
from implanting.fewshot import Calibration, open_set_score
from implanting.head import Head
from implanting.heatmap import Explanation, MapKind, centre_square, evidence_maps, similarity_maps, softmax_maps
from implanting.images import ImageSource, decode, load, views_of
from implanting.implants import Implants, encode, widened
from implanting.runtime import check_memory

Images = UInt8[Tensor, "image height width 3"]
Batches = Iterable[UInt8[Tensor, "_ _ _ 3"]]


MAPS_AT_ONCE = 5
"""How many maps of the largest size a network may hold at once: ResNet-12 holds five, EfficientNet-Lite two."""


def prints_of(images: Images) -> list[int]:
    """Hash the pixels of each image; the image cannot be recovered from its hash."""
    digests = (hashlib.blake2b(image.tobytes(), digest_size=8).digest() for image in images.numpy())
    return [int.from_bytes(digest, "little", signed=True) for digest in digests]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions for the classifier's own examples while they are held out, an unbiased view of its accuracy.

    The examples of each class are divided into folds (five, or as many as there are images). A classifier fitted
    without a fold predicts the examples in it, using the calibration of the final classifier.
    """

    numbers: Int[Tensor, " image"]
    """The index of each example, counting all images in the order `fit`, `add_class` and `add_images` received them."""
    labels: Int[Tensor, " image"]
    """The class number of each example, an index into `classes_`."""
    probabilities: Float[Tensor, "image way"]
    """The probability of each class. The row of an example is nan if it was never held out: its class has no other
    image, or there are so many images that only some of them were held out."""


@dataclass(frozen=True, eq=False)
class Readings:
    """The joined readings of supports, kept so that a head can be fitted again."""

    vectors: Float16[Tensor, "image view dim"]
    """Readings of the image itself, then of its other views, in half precision. Every fit uses these rounded values."""
    labels: Int[Tensor, " image"]
    numbers: Int[Tensor, " image"]
    """The index of each image, as in `HeldOut`."""

    def chosen(self, images: Tensor) -> "Readings":
        """Select the readings of some images, given by index or by mask."""
        return Readings(self.vectors[images], self.labels[images], self.numbers[images])


@dataclass(frozen=True, eq=False)
class Learned:
    """Everything learned from a user's task; class numbers are indices into `classes`."""

    base: BaseNetwork
    size: int
    """Side in pixels to which images are resized."""
    classes: np.ndarray
    """The labels, sorted."""
    prototypes: Float[Tensor, "way dim"]
    """Class means of the pooled supports; with a head, of their joined readings."""
    counts: Int[Tensor, " way"]
    """Number of supports per class."""
    classify: PrototypeClassifier
    """How supports and queries are pooled, and tau."""
    calibration: Calibration
    implants: Implants | None = None
    support_views: int = 1
    """Number of views of each support that are averaged into its prototype."""
    supports: tuple[Images, Int[Tensor, " image"]] | None = None
    """The examples and their class numbers, if they are kept."""
    prints: frozenset[int] = frozenset()
    """Hashes of the examples' pixels, used to recognise an image that was among the examples."""
    head: Head | None = None
    """The head that answers instead of the prototypes, if any."""
    readings: Readings | None = None
    """The readings that the head was fitted to; if there are very many supports, only some are kept."""
    held_out: HeldOut | None = None
    """None in files of earlier versions, and after the classes of a prototype classifier have changed."""

    def answers(self, images: Images) -> tuple[Float[Tensor, "image way"], Float[Tensor, " image"]]:
        """Return the probability of each class, and the open-set score, of each image."""
        if self.head is not None:
            return self.answers_by_readings(self.head, self.base.read(images))
        cosines = self.cosines(self.features(images))
        return self.probabilities(cosines), open_set_score(cosines)

    def answers_by_readings(
        self, head: Head, vectors: Float[Tensor, "image dim"]
    ) -> tuple[Float[Tensor, "image way"], Float[Tensor, " image"]]:
        """Answer as `answers` does, from joined readings instead of images."""
        scores = head.scores(vectors)
        return torch.softmax(self.calibration.power * scores, dim=-1), head.open_set_score(vectors, scores)

    def features(self, images: Images) -> Float[Tensor, "image location dim"]:
        """Return phi of each image, extended by the implants' channels if there are implants."""
        if self.implants is None:
            return self.base.embed(images).cpu()
        maps, phi, sizes = encode(self.base, images)
        implants = dataclasses.replace(self.implants, sizes=sizes)
        return widened(implants, [part[None] for part in maps], phi[None])[0]

    def cosines(self, features: Float[Tensor, "image location dim"]) -> Float[Tensor, "image pooled way"]:
        """Return the cosine of each location, or of the pooled map, with each prototype."""
        return scaled_cosine(self.classify.asked(features), self.prototypes, 1.0)

    def probabilities(self, cosines: Float[Tensor, "image pooled way"]) -> Float[Tensor, "image way"]:
        """Return calibrated class probabilities (Eqs. 13 and 14)."""
        return self.calibration.sharpen(probabilities(self.classify.tau * cosines))

    def with_images(self, batches: Batches, labels: Int[Tensor, " image"]) -> "Learned":
        """Add supports of known classes, read batch by batch; the caller must fit a head again."""
        vectors, kept, read, prints = [], [], [], set(self.prints)
        for images in batches:
            prints.update(prints_of(images))
            if self.head is not None:
                read.append(self.read_views(images))
                vectors.append(read[-1].float().mean(1))
            else:
                features = self.features(views_of(images, self.support_views).flatten(0, 1))
                vectors.append(self.classify.vectors(features).unflatten(0, (self.support_views, -1)).mean(0))
            if self.supports is not None:
                kept.append(images)
        added = labels.bincount(minlength=len(self.counts))
        counts = self.counts + added
        moves = prototypes(torch.cat(vectors), labels.argsort(stable=True), added) - self.prototypes
        supports = self.supports and (
            torch.cat([self.supports[0], *kept]),
            torch.cat([self.supports[1], labels]),
        )
        moved = self.prototypes + (added / counts)[:, None] * moves
        return dataclasses.replace(
            self,
            prototypes=moved,
            counts=counts,
            supports=supports,
            prints=frozenset(prints),
            readings=self.readings and self._further_readings(self.readings, torch.cat(read), labels),
            held_out=None,
        )

    def read_views(self, images: Images) -> Float16[Tensor, "image view dim"]:
        """Return the joined readings of the views of each image, as `readings` stores them."""
        return read_views(self.base, images, self.support_views)

    def _further_readings(self, kept: Readings, vectors: Tensor, labels: Int[Tensor, " image"]) -> Readings:
        first = int(kept.numbers.max()) + 1
        return Readings(
            torch.cat([kept.vectors, vectors]),
            torch.cat([kept.labels, labels]),
            torch.cat([kept.numbers, torch.arange(first, first + len(labels))]),
        )

    def with_classes(self, classes: np.ndarray) -> "Learned":
        """Extend the classes to `classes`; a new class has no image yet."""
        places = class_numbers(self.classes, classes)
        empty = self.prototypes.new_zeros(len(classes), self.prototypes.shape[1])
        return dataclasses.replace(
            self,
            classes=classes,
            prototypes=empty.index_copy(0, places, self.prototypes),
            counts=self.counts.new_zeros(len(classes)).index_copy(0, places, self.counts),
            supports=self.supports and (self.supports[0], places[self.supports[1]]),
            readings=self.readings and dataclasses.replace(self.readings, labels=places[self.readings.labels]),
            held_out=None,
        )

    def without(self, number: int) -> "Learned":
        """Remove a class; the caller must fit a head again."""
        kept = torch.arange(len(self.classes)) != number
        supports = self.supports
        if supports is not None:
            images, labels = supports
            others = labels != number
            supports = images[others], labels[others] - (labels[others] > number).long()
        readings = self.readings and self.readings.chosen(self.readings.labels != number)
        if readings is not None:
            readings = dataclasses.replace(readings, labels=readings.labels - (readings.labels > number).long())
        return dataclasses.replace(
            self,
            classes=self.classes[kept.numpy()],
            prototypes=self.prototypes[kept],
            counts=self.counts[kept],
            supports=supports,
            readings=readings,
            held_out=None,
        )

    def explain(self, source: ImageSource, kind: MapKind | None, finer: int) -> Explanation:
        """Map the locations at which an image resembles each class, computed at `finer` times the usual size."""
        if self.classify.query_pooling == "flatten":
            raise ConfigError(
                "a base trained with flatten has no class scores of single locations: explain needs another base"
            )
        kind = kind or ("similarity" if self.head is None else "evidence")
        if kind == "evidence" and self.head is None:
            raise ConfigError("`kind` evidence needs a head, and this classifier has none: use similarity")
        self._check_finer(finer)
        own, fine = (torch.from_numpy(load(source, self.size * times).copy())[None] for times in (1, finer))
        given, image = self.answers(own)[0][0], decode(source)
        shape = self.base.map_size(self.size * finer, self.size * finer)
        maps = self._maps(fine, kind, shape)
        box = centre_square(image.height, image.width)
        return Explanation(np.asarray(image), maps.numpy(), tuple(self.classes.tolist()), given.numpy(), kind, box)

    def _check_finer(self, finer: int) -> None:
        """Refuse, before anything is computed, images that are too large for any memory or for what is free."""
        side, most = self.size * finer, max(1, LARGEST_SIDE // self.size)
        needed = f"from 1 to {most}, as images of {self.size} px would be larger than {LARGEST_SIDE} px beyond"
        require(1 <= finer <= most, "finer", finer, needed)
        if finer > 1 and self.base.device.type == "cpu":
            numbers = MAPS_AT_ONCE * self.base.network.numbers_per_pixel * side**2
            check_memory(int(4 * numbers), f"`finer` {finer}, an image of {side} px,", "choose a smaller one")

    def _maps(self, image: Images, kind: MapKind, shape: tuple[int, int]) -> Float[Tensor, "way rows columns"]:
        if self.head is None:
            phi = self.features(image)[0]
            if kind == "softmax":
                return softmax_maps(phi, self.prototypes, self.classify.tau, shape)
            return similarity_maps(phi, self.prototypes, shape)
        shares = self.base.reading_maps(image)[0]
        if kind == "similarity":  # the first reading is the mean of phi, so its prototypes are phi's
            dim = self.base.reading_dims[0]
            return similarity_maps(shares[:dim].flatten(1).T, self.prototypes[:, :dim], shape)
        evidence = self.calibration.power * evidence_maps(shares, self.head.class_weights, self.head.bias)
        return evidence if kind == "evidence" else evidence.softmax(0)


def read_views(base: BaseNetwork, images: Images, views: int) -> Float16[Tensor, "image view dim"]:
    """Return the joined readings of the views of each image, in half precision."""
    return base.read(views_of(images, views).flatten(0, 1)).half().unflatten(0, (views, -1)).transpose(0, 1)
