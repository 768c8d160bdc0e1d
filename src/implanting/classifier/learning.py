"""One task as a user has it: learn classes from supports, answer for further images, take classes in and out.

This is the path of evaluation with one task in the batch. A class is the mean of its pooled supports and their number,
so that images and classes are added and removed at the cost of themselves; the implants stay as they were trained.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.config import ImplantConfig, InferenceConfig
from implanting.datasets import views_of
from implanting.dense_classification import (
    left_out_cosines,
    pool,
    probabilities,
    prototype_classifier,
    prototypes,
    scaled_cosine,
)
from implanting.fewshot import UNKNOWN, Calibration, calibrate, open_set_score
from implanting.implants import Fitted, Fitting, Supports, cross_fit_implants, encode, fitting_of, widened
from implanting.runtime import Stream, generator_of

Images = UInt8[Tensor, "image height width 3"]

CALIBRATED = 300
"""Supports that are held out to calibrate a task without implants, at most."""

MOST_IMPLANTED = 500
"""Supports beyond which "auto" does without implants: training them would take minutes."""

ENOUGH = 3
"""Images that some class must have for its supports to tell how sure the classifier is."""


@dataclass(frozen=True)
class Learned:
    """What a task leaves behind."""

    base: BaseNetwork
    fitted: Fitted
    """Of one task: prototypes, implants, and how queries are scored."""
    counts: Int[Tensor, " way"]
    """Supports of each class."""
    calibration: Calibration
    support_views: int = 1
    """Views of each support that its prototype averages."""

    @property
    def prototypes(self) -> Float[Tensor, "way dim"]:
        """One vector a class."""
        return self.fitted.prototypes[0]

    def features(self, images: Images) -> Float[Tensor, "image location dim"]:
        """phi of each image, widened by the implants where there are any."""
        if self.fitted.implants is None:
            return self.base.embed(images).cpu()
        maps, phi, sizes = encode(self.base, images)
        implants = dataclasses.replace(self.fitted.implants, sizes=sizes)
        return widened(implants, [part[None] for part in maps], phi[None])[0]

    def cosines(self, features: Float[Tensor, "image location dim"]) -> Float[Tensor, "image pooled way"]:
        """Of each location, or of the pooled map, with each prototype."""
        return scaled_cosine(pool(features, self.fitted.classify.query_pooling), self.prototypes, 1.0)

    def probabilities(self, cosines: Float[Tensor, "image pooled way"]) -> Float[Tensor, "image way"]:
        """Calibrated probabilities of the classes (Eqs. 13 and 14)."""
        return self.calibration.sharpen(probabilities(self.fitted.classify.tau * cosines))

    def with_images(self, images: Images, labels: Int[Tensor, " image"]) -> "Learned":
        """Further supports of these classes."""
        features = self.features(views_of(images, self.support_views).flatten(0, 1))
        vectors = self.fitted.classify.vectors(features).unflatten(0, (self.support_views, -1)).mean(0)
        added = labels.bincount(minlength=len(self.counts))
        counts = self.counts + added
        moves = prototypes(vectors, labels.argsort(stable=True), added) - self.prototypes
        return self.replaced(self.prototypes + (added / counts)[:, None] * moves, counts)

    def with_classes(self, places: Int[Tensor, " way"], way: int) -> "Learned":
        """The same classes at other places among `way`; places that stay empty wait for their first image."""
        counts = self.counts.new_zeros(way).index_copy(0, places, self.counts)
        empty = self.prototypes.new_zeros(way, self.prototypes.shape[1])
        return self.replaced(empty.index_copy(0, places, self.prototypes), counts)

    def only(self, kept: Int[Tensor, " way"]) -> "Learned":
        """These classes alone."""
        return self.replaced(self.prototypes[kept], self.counts[kept])

    def replaced(self, prototypes: Float[Tensor, "way dim"], counts: Int[Tensor, " way"]) -> "Learned":
        """The same with other prototypes."""
        return dataclasses.replace(
            self, fitted=dataclasses.replace(self.fitted, prototypes=prototypes[None]), counts=counts
        )


def learn(
    base: BaseNetwork,
    pooling: InferenceConfig,
    config: ImplantConfig | None,
    batches: Iterable[Images],
    labels: Int[Tensor, " image"],
    seed: int,
) -> Learned:
    """Learn classes from their supports; without a configuration of implants, by prototypes alone."""
    if config is None:
        return learn_prototypes(base, pooling, batches, labels)
    return learn_implants(base, fitting_of(base, pooling, config), torch.cat(list(batches)), labels, seed)


def with_implants(asked: Literal["auto"] | bool | np.bool_, base: BaseNetwork, counts: Int[Tensor, " way"]) -> bool:
    """Whether implants are trained: as asked, or where they are known to help and training them takes seconds."""
    if asked != "auto":
        return bool(asked)
    possible = base.tail is not None and base.pooling != "flatten" and int(counts.sum()) <= MOST_IMPLANTED
    return possible and float(counts.median()) >= base.usage.implants_from_shots


def learn_implants(
    base: BaseNetwork, fitting: Fitting, images: Images, labels: Int[Tensor, " image"], seed: int
) -> Learned:
    """Implants trained on all supports, then prototypes; how sure they are is told by cross-fitting."""
    maps, phi, sizes = encode(base, views_of(images, fitting.views).transpose(0, 1).flatten(0, 1))
    supports, counts = Supports.of_one_task(maps, phi, labels, sizes, fitting.views), labels.bincount()
    fitted = fitting.fit_implants(supports, [generator_of(seed, Stream.IMPLANTS, 0)])
    learned = Learned(base, fitted, counts, usual_calibration(base, counts), fitting.support_views)
    if int(learned.counts.max()) < ENOUGH:
        return learned
    held_out = cross_fit_implants(supports, brief(fitting), [generator_of(seed, Stream.IMPLANTS, 0)])
    asked = held_out.probabilities[0].isfinite().all(-1)
    scores = open_set_score(held_out.cosines[0, asked][:, None])
    told = calibrate(held_out.probabilities[0, asked], labels[asked], scores)
    return dataclasses.replace(learned, calibration=told.backed_by(learned.calibration))


def brief(fitting: Fitting) -> Fitting:
    """How folds are fitted: their implants tell as much after half of the epochs (`docs/decisions/0007`)."""
    config = dataclasses.replace(fitting.config, implant_epochs=-(-fitting.config.implant_epochs // 2))
    return dataclasses.replace(fitting, config=config)


def learn_prototypes(
    base: BaseNetwork, pooling: InferenceConfig, batches: Iterable[Images], labels: Int[Tensor, " image"]
) -> Learned:
    """Prototypes alone, the images read batch by batch: memory does not grow with them beyond one vector each."""
    classify, views = prototype_classifier(base.pooling, base.tau, pooling), pooling.support_views
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    chosen[calibrating(labels)] = True
    vectors, queries, start = [], [], 0
    for images in batches:
        phi = base.embed(views_of(images, views).flatten(0, 1)).cpu().unflatten(0, (views, len(images)))
        vectors.append(classify.vectors(phi).mean(0))
        queries.append(pool(phi[0], classify.query_pooling)[chosen[start : start + len(images)]])
        start += len(images)
    support, counts = torch.cat(vectors), labels.bincount()
    fitted = Fitted(prototypes(support, labels.argsort(stable=True), counts)[None], classify)
    learned = Learned(base, fitted, counts, usual_calibration(base, counts), views)
    if not chosen.any():
        return learned
    cosines = left_out_cosines(torch.cat(queries), support[chosen], labels[chosen], learned.prototypes, counts)
    told = calibrate(probabilities(classify.tau * cosines), labels[chosen], open_set_score(cosines))
    return dataclasses.replace(learned, calibration=told.backed_by(learned.calibration))


def usual_calibration(base: BaseNetwork, counts: Int[Tensor, " way"]) -> Calibration:
    """What the validation images of a base tell, for tasks whose supports are too few to tell it."""
    told = {shots: stored for shots, stored in base.usage.calibrations.items() if shots <= int(counts.median())}
    return Calibration.from_document(told[max(told)]) if told else UNKNOWN


def calibrating(labels: Int[Tensor, " image"]) -> Int[Tensor, " chosen"]:
    """Supports that may be left out: of classes that have enough, and spread over them where they are many."""
    counts = labels.bincount()
    eligible = torch.nonzero(counts[labels] >= ENOUGH).flatten()
    return eligible[:: max(1, -(-len(eligible) // CALIBRATED))]
