"""How one task is learned from its supports, as a user has them: implants where they help, prototypes, calibration.

This is the path of evaluation with one task in the batch. Classes are numbers here.
"""

import dataclasses
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.classifier.learned import Batches, Images, Learned
from implanting.config import ImplantConfig, InferenceConfig
from implanting.dense_classification import (
    left_out_cosines,
    pool,
    probabilities,
    prototype_classifier,
    prototypes,
)
from implanting.fewshot import UNKNOWN, Calibration, calibrate, open_set_score
from implanting.images import views_of
from implanting.implants import Fitting, Supports, cross_fit_implants, encode, fitting_of
from implanting.runtime import Stream, generator_of

CALIBRATED = 300
"""Supports that are held out to calibrate a task without implants, at most."""

MOST_IMPLANTED = 500
"""Supports beyond which "auto" does without implants: training them would take minutes."""

ENOUGH = 3
"""Images that some class must have for its supports to tell how sure the classifier is."""


def with_implants(asked: Literal["auto"] | bool | np.bool_, base: BaseNetwork, counts: Int[Tensor, " way"]) -> bool:
    """Whether implants are trained: as asked, or where they are known to help and training them takes seconds."""
    if asked != "auto":
        return bool(asked)
    possible = base.tail is not None and base.pooling != "flatten" and int(counts.sum()) <= MOST_IMPLANTED
    return possible and float(counts.median()) >= base.usage.implants_from_shots


def learn(
    base: BaseNetwork,
    pooling: InferenceConfig,
    config: ImplantConfig | None,
    batches: Batches,
    labels: Int[Tensor, " image"],
    seed: int,
) -> Learned:
    """Learn classes from their supports; without a configuration of implants, by prototypes alone."""
    if config is None:
        return _learn_prototypes(base, pooling, batches, labels)
    return _learn_implants(base, fitting_of(base, pooling, config), torch.cat(list(batches)), labels, seed)


def _learn_implants(
    base: BaseNetwork, fitting: Fitting, images: Images, labels: Int[Tensor, " image"], seed: int
) -> Learned:
    """Implants trained on all supports, then prototypes; cross-fitting shows how sure they are."""
    maps, phi, sizes = encode(base, views_of(images, fitting.views).transpose(0, 1).flatten(0, 1))
    supports, counts = Supports.of_one_task(maps, phi, labels, sizes, fitting.views), labels.bincount()
    fitted = fitting.fit_implants(supports, [generator_of(seed, Stream.IMPLANTS, 0)])
    learned = Learned(
        base=base,
        size=images.shape[1],
        classes=np.arange(len(counts)),
        prototypes=fitted.prototypes[0],
        counts=counts,
        classify=fitted.classify,
        calibration=usual_calibration(base, counts),
        implants=fitted.implants,
        support_views=fitting.support_views,
    )
    if int(counts.max()) < ENOUGH:
        return learned
    held_out = cross_fit_implants(supports, _brief(fitting), [generator_of(seed, Stream.IMPLANTS, 0)])
    asked = held_out.probabilities[0].isfinite().all(-1)
    scores = open_set_score(held_out.cosines[0, asked][:, None])
    return calibrated(learned, calibrate(held_out.probabilities[0, asked], labels[asked], scores))


def _brief(fitting: Fitting) -> Fitting:
    """How folds are fitted: their implants tell as much after half of the epochs (`docs/decisions/0007`)."""
    config = dataclasses.replace(fitting.config, implant_epochs=-(-fitting.config.implant_epochs // 2))
    return dataclasses.replace(fitting, config=config)


def _learn_prototypes(
    base: BaseNetwork, pooling: InferenceConfig, batches: Batches, labels: Int[Tensor, " image"]
) -> Learned:
    """Prototypes alone, the images read batch by batch: memory does not grow with them beyond one vector each."""
    classify, views = prototype_classifier(base.pooling, base.tau, pooling), pooling.support_views
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    chosen[calibrating(labels)] = True
    vectors, queries, start, size = [], [], 0, 0
    for images in batches:
        phi = base.embed(views_of(images, views).flatten(0, 1)).cpu().unflatten(0, (views, len(images)))
        vectors.append(classify.vectors(phi).mean(0))
        queries.append(pool(phi[0], classify.query_pooling)[chosen[start : start + len(images)]])
        start, size = start + len(images), images.shape[1]
    support, counts = torch.cat(vectors), labels.bincount()
    means = prototypes(support, labels.argsort(stable=True), counts)
    usual = usual_calibration(base, counts)
    learned = Learned(base, size, np.arange(len(counts)), means, counts, classify, usual, support_views=views)
    if not chosen.any():
        return learned
    cosines = left_out_cosines(torch.cat(queries), support[chosen], labels[chosen], means, counts)
    given = probabilities(classify.tau * cosines)
    return calibrated(learned, calibrate(given, labels[chosen], open_set_score(cosines)))


def usual_calibration(base: BaseNetwork, counts: Int[Tensor, " way"]) -> Calibration:
    """What the validation images of a base tell, for tasks whose supports are too few to tell it."""
    known = {shots: stored for shots, stored in base.usage.calibrations.items() if shots <= int(counts.median())}
    return Calibration.from_document(known[max(known)]) if known else UNKNOWN


def calibrated(learned: Learned, by_supports: Calibration) -> Learned:
    """Calibrated by what was said of supports that were left out, with what the base tells to fall back on."""
    return dataclasses.replace(learned, calibration=by_supports.backed_by(learned.calibration))


def calibrating(labels: Int[Tensor, " image"]) -> Int[Tensor, " chosen"]:
    """Supports that may be left out: of classes that have enough, and spread over them where they are many."""
    counts = labels.bincount()
    eligible = torch.nonzero(counts[labels] >= ENOUGH).flatten()
    return eligible[:: max(1, -(-len(eligible) // CALIBRATED))]
