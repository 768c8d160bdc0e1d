"""What a fit learns, as one flat value: the classifier holds it, answers by it, and saves it as it is.

A class is the mean of its pooled supports and their number, so that images and classes are added and removed at the
cost of themselves; the implants stay as they were trained.
"""

import dataclasses
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.classifier.labels import class_numbers
from implanting.dense_classification import PrototypeClassifier, pool, probabilities, prototypes, scaled_cosine
from implanting.errors import ConfigError
from implanting.fewshot import Calibration
from implanting.heatmap import Explanation, MapKind, centre_square, similarity_maps, softmax_maps
from implanting.images import ImageSource, decode, load, views_of
from implanting.implants import Implants, encode, widened

Images = UInt8[Tensor, "image height width 3"]
Batches = Iterable[UInt8[Tensor, "_ _ _ 3"]]


def prints_of(images: Images) -> list[int]:
    """A hash of each image's pixels; nothing of the image can be read from it."""
    digests = (hashlib.blake2b(image.tobytes(), digest_size=8).digest() for image in images.numpy())
    return [int.from_bytes(digest, "little", signed=True) for digest in digests]


@dataclass(frozen=True, eq=False)
class Learned:
    """One task as a user has it; class numbers are places in `classes`."""

    base: BaseNetwork
    size: int
    """Side in pixels to which images are brought."""
    classes: np.ndarray
    """The labels, in order."""
    prototypes: Float[Tensor, "way dim"]
    counts: Int[Tensor, " way"]
    """Supports of each class."""
    classify: PrototypeClassifier
    """How supports and queries are pooled, and tau."""
    calibration: Calibration
    implants: Implants | None = None
    support_views: int = 1
    """Views of each support that its prototype averages."""
    supports: tuple[Images, Int[Tensor, " image"]] | None = None
    """The examples and their class numbers, where they are kept."""
    prints: frozenset[int] = frozenset()
    """Hashes of the examples' pixels, by which an image that was fitted to is recognised."""

    def features(self, images: Images) -> Float[Tensor, "image location dim"]:
        """phi of each image, widened by the implants where there are any."""
        if self.implants is None:
            return self.base.embed(images).cpu()
        maps, phi, sizes = encode(self.base, images)
        implants = dataclasses.replace(self.implants, sizes=sizes)
        return widened(implants, [part[None] for part in maps], phi[None])[0]

    def cosines(self, features: Float[Tensor, "image location dim"]) -> Float[Tensor, "image pooled way"]:
        """Of each location, or of the pooled map, with each prototype."""
        return scaled_cosine(pool(features, self.classify.query_pooling), self.prototypes, 1.0)

    def probabilities(self, cosines: Float[Tensor, "image pooled way"]) -> Float[Tensor, "image way"]:
        """Calibrated probabilities of the classes (Eqs. 13 and 14)."""
        return self.calibration.sharpen(probabilities(self.classify.tau * cosines))

    def with_images(self, batches: Batches, labels: Int[Tensor, " image"]) -> "Learned":
        """Further supports of these classes, read batch by batch."""
        vectors, kept, prints = [], [], set(self.prints)
        for images in batches:
            prints.update(prints_of(images))
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
        return dataclasses.replace(self, prototypes=moved, counts=counts, supports=supports, prints=frozenset(prints))

    def with_classes(self, classes: np.ndarray) -> "Learned":
        """The same classes among further ones, which wait for their first image."""
        places = class_numbers(self.classes, classes)
        empty = self.prototypes.new_zeros(len(classes), self.prototypes.shape[1])
        return dataclasses.replace(
            self,
            classes=classes,
            prototypes=empty.index_copy(0, places, self.prototypes),
            counts=self.counts.new_zeros(len(classes)).index_copy(0, places, self.counts),
            supports=self.supports and (self.supports[0], places[self.supports[1]]),
        )

    def without(self, number: int) -> "Learned":
        """The other classes alone."""
        kept = torch.arange(len(self.classes)) != number
        supports = self.supports
        if supports is not None:
            images, labels = supports
            others = labels != number
            supports = images[others], labels[others] - (labels[others] > number).long()
        return dataclasses.replace(
            self,
            classes=self.classes[kept.numpy()],
            prototypes=self.prototypes[kept],
            counts=self.counts[kept],
            supports=supports,
        )

    def explain(self, source: ImageSource, kind: MapKind, finer: int) -> Explanation:
        """Where an image looks like each class; the maps come from the image at `finer` times the size."""
        if self.classify.query_pooling == "flatten":
            raise ConfigError(
                "a base trained with flatten has no class scores of single locations: explain needs another"
            )
        sides = {self.size, self.size * finer}
        features = {side: self.features(torch.from_numpy(load(source, side).copy())[None]) for side in sides}
        given = self.probabilities(self.cosines(features[self.size]))[0]
        phi, image = features[self.size * finer][0], decode(source)
        shape = self.base.map_size(self.size * finer, self.size * finer)
        if kind == "softmax":
            maps = softmax_maps(phi, self.prototypes, self.classify.tau, shape)
        else:
            maps = similarity_maps(phi, self.prototypes, shape)
        box = centre_square(image.height, image.width)
        return Explanation(np.asarray(image), maps.numpy(), tuple(self.classes.tolist()), given.numpy(), kind, box)
