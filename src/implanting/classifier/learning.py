"""Learn a user's task from its supports: a head, or prototypes with or without implants.

Prototypes and implants use the same code as evaluation, with one task in the batch. Every kind of classifier is
calibrated on held-out supports. In this module, classes are numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Float16, Int
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.classifier.learned import Batches, HeldOut, Images, Learned, Readings, read_views
from implanting.classifier.methods import MethodChoice, fit_method, is_linear
from implanting.config import ImplantConfig, InferenceConfig
from implanting.dense_classification import (
    left_out_cosines,
    probabilities,
    prototype_classifier,
    prototypes,
)
from implanting.errors import ConfigError
from implanting.fewshot import UNKNOWN, Calibration, calibrate, open_set_score, rank_in_class
from implanting.head import Fitted, fit_head
from implanting.images import views_of
from implanting.implants import Fitting, Supports, cross_fit_implants, encode, fitting_of
from implanting.runtime import Stream, generator_of

CALIBRATED = 300
"""The largest number of supports that are held out to calibrate a task without implants."""

MOST_IMPLANTED = 500
"""With more supports than this, "auto" does not train implants, because that would take minutes."""

ENOUGH = 3
"""Calibration on the supports needs a class with at least this many images."""


KEPT = 4000
"""The largest number of supports whose readings are kept (34 MB with EfficientNet); beyond it, an equal number per
class is kept."""

HeadChoice = Literal["auto", "logistic", "prototypes"]


@dataclass(frozen=True)
class Way:
    """Whether a task is learned with implants, and whether with a head."""

    implants: bool
    head: bool


def way_of(
    head: HeadChoice,
    implants: Literal["auto"] | bool | np.bool_,
    base: BaseNetwork,
    counts: Int[Tensor, " way"],
    pooling: InferenceConfig,
) -> Way:
    """Resolve the settings `head` and `implants`; "auto" follows what was best on the base's validation images.

    Implants and poolings work with prototypes only, so asking for either of them selects prototypes.
    """
    if head == "logistic":
        if implants not in ("auto", False):
            raise ConfigError("implants need prototypes: set `head` prototypes, or `implants` False")
        if base.pooling == "flatten":
            raise ConfigError(f"{base.name} was trained with flatten, which a head cannot use: set `head` prototypes")
        return Way(implants=False, head=True)
    trained = with_implants(implants, base, counts)
    named = pooling.support_pooling not in (None, "gap") or pooling.query_pooling is not None
    pooled = named or pooling.query_views > 1 or base.pooling == "flatten"
    if head == "prototypes" or implants not in ("auto", False) or pooled:
        return Way(implants=trained, head=False)
    if trained and base.usage.implants_beat_head:
        return Way(implants=True, head=False)
    # with one image per class only a calibration stored with the base is possible, and some bases have none for a head
    untold = int(counts.max()) == 1 and not base.usage.head.calibrations and bool(base.usage.calibrations)
    return Way(implants=False, head=not untold)


def default_way(base: BaseNetwork, counts: Int[Tensor, " way"]) -> Way:
    """Return how a task with this many supports per class is learned if no setting is given."""
    return way_of("auto", "auto", base, counts, InferenceConfig())


def with_implants(asked: Literal["auto"] | bool | np.bool_, base: BaseNetwork, counts: Int[Tensor, " way"]) -> bool:
    """Resolve the setting `implants`; "auto" trains them where they are known to help prototypes and take seconds."""
    if asked != "auto":
        return bool(asked)
    possible = base.tail is not None and base.pooling != "flatten" and int(counts.sum()) <= MOST_IMPLANTED
    return possible and float(counts.median()) >= base.usage.implants_from_shots


def learn_head(
    base: BaseNetwork, batches: Batches, labels: Int[Tensor, " image"], method: MethodChoice = "auto"
) -> Learned:
    """Learn a head, reading the images batch by batch, so that only their readings are held in memory."""
    views = base.usage.head.support_views(int(labels.bincount().median()))
    vectors, size = [], 0
    for images in batches:
        vectors.append(read_views(base, images, views))
        size = images.shape[1]
    return learn_from_readings(base, size, torch.cat(vectors), labels, method)


def learn_from_readings(
    base: BaseNetwork,
    size: int,
    vectors: Float16[Tensor, "image view dim"],
    labels: Int[Tensor, " image"],
    method: MethodChoice = "auto",
) -> Learned:
    """Learn a head from the joined readings of the views of images that were `size` pixels wide."""
    readings, counts = Readings(vectors, labels, torch.arange(len(labels))), labels.bincount()
    classify = prototype_classifier(base.pooling, 1.0, InferenceConfig())
    empty, views = torch.zeros(len(counts), vectors.shape[2]), vectors.shape[1]
    learned = Learned(base, size, np.arange(len(counts)), empty, counts, classify, UNKNOWN, support_views=views)
    return fitted_again(replace(learned, readings=readings), method)


def fitted_again(learned: Learned, method: MethodChoice = "auto") -> Learned:
    """Fit and calibrate the head from the stored readings; without readings, return `learned` unchanged."""
    if learned.readings is None:
        return learned
    readings, defaults = learned.readings, learned.base.usage.head
    queries, labels = readings.vectors[:, 0].float(), readings.labels
    supports = queries if learned.support_views == 1 else readings.vectors.float().mean(1)
    dims, usual = learned.base.reading_dims, UNKNOWN
    if is_linear(method):
        fitted = fit_method(method, supports, queries, labels, dims, learned.base.tau)
    else:
        seen = defaults.recognise(queries, labels, dims)
        fitted = fit_head(supports, queries, labels, dims, defaults.weights_for(seen), defaults.penalty)
        usual = _usual(defaults.calibrations_for(len(learned.counts), seen), labels.bincount())
    calibration = _head_calibration(fitted, labels, usual)
    probabilities = torch.softmax(calibration.power * fitted.held_out.scores, dim=-1)
    kept = readings
    if len(labels) > KEPT:
        kept = readings.chosen(rank_in_class(labels) < max(2, KEPT // len(learned.counts)))
    return replace(
        learned,
        prototypes=prototypes(supports, labels.argsort(stable=True), labels.bincount()),
        calibration=calibration,
        head=fitted.head,
        readings=kept,
        held_out=HeldOut(readings.numbers, labels, probabilities),
    )


def _head_calibration(fitted: Fitted, labels: Int[Tensor, " image"], usual: Calibration) -> Calibration:
    """Calibrate on the held-out supports if there are any, backed by the usual calibration."""
    asked = fitted.held_out.distances.isfinite()
    if not asked.any():
        return usual
    probabilities = fitted.held_out.scores[asked].softmax(-1)
    scores = fitted.held_out.open_set_scores()[asked]
    return calibrate(probabilities, labels[asked], scores, usual=usual.power).backed_by(usual)


def learn(
    base: BaseNetwork,
    pooling: InferenceConfig,
    config: ImplantConfig | None,
    batches: Batches,
    labels: Int[Tensor, " image"],
    seed: int,
) -> Learned:
    """Learn prototypes of classes from their supports, with implants if `config` is given."""
    if config is None:
        return _learn_prototypes(base, pooling, batches, labels)
    return _learn_implants(base, fitting_of(base, pooling, config), torch.cat(list(batches)), labels, seed)


def _learn_implants(
    base: BaseNetwork, fitting: Fitting, images: Images, labels: Int[Tensor, " image"], seed: int
) -> Learned:
    """Train implants on all supports, then compute prototypes; calibrate them by cross-fitting.

    The share of the implants is chosen once, from all supports, and is the same in all folds.
    """
    maps, phi, sizes = encode(base, views_of(images, fitting.views).transpose(0, 1).flatten(0, 1))
    supports, counts = Supports.of_one_task(maps, phi, labels, sizes, fitting.views), labels.bincount()
    (share,) = fitting.shares(supports, [generator_of(seed, Stream.IMPLANTS, 0)]).tolist()
    fitting = replace(fitting, config=replace(fitting.config, implant_share=share))
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
    calibration = calibrate(held_out.probabilities[0, asked], labels[asked], scores)
    return calibrated(learned, calibration, labels, held_out.probabilities[0])


def _brief(fitting: Fitting) -> Fitting:
    """Halve the epochs for the folds, which calibrates as well (`docs/decisions/0007`)."""
    config = replace(fitting.config, implant_epochs=-(-fitting.config.implant_epochs // 2))
    return replace(fitting, config=config)


def _learn_prototypes(
    base: BaseNetwork, pooling: InferenceConfig, batches: Batches, labels: Int[Tensor, " image"]
) -> Learned:
    """Compute prototypes only, reading the images batch by batch, so that one vector per image is held in memory."""
    classify, views = prototype_classifier(base.pooling, base.tau, pooling), pooling.support_views
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    chosen[calibrating(labels)] = True
    vectors, queries, start, size = [], [], 0, 0
    for images in batches:
        phi = base.embed(views_of(images, views).flatten(0, 1)).cpu().unflatten(0, (views, len(images)))
        vectors.append(classify.vectors(phi).mean(0))
        queries.append(classify.asked(phi[0])[chosen[start : start + len(images)]])
        start, size = start + len(images), images.shape[1]
    support, counts = torch.cat(vectors), labels.bincount()
    means = prototypes(support, labels.argsort(stable=True), counts)
    usual = usual_calibration(base, counts)
    learned = Learned(base, size, np.arange(len(counts)), means, counts, classify, usual, support_views=views)
    if not chosen.any():
        return learned
    cosines = left_out_cosines(torch.cat(queries), support[chosen], labels[chosen], means, counts)
    given = probabilities(classify.tau * cosines)
    held_out = torch.full((len(labels), len(counts)), torch.nan)
    held_out[chosen] = given
    return calibrated(learned, calibrate(given, labels[chosen], open_set_score(cosines)), labels, held_out)


def usual_calibration(base: BaseNetwork, counts: Int[Tensor, " way"]) -> Calibration:
    """Calibration of prototypes measured on the base's validation images, for tasks with too few supports."""
    return _usual(base.usage.calibrations, counts)


def _usual(stored: Mapping[int, Mapping[str, Any]], counts: Int[Tensor, " way"]) -> Calibration:
    known = {shots: calibration for shots, calibration in stored.items() if shots <= int(counts.median())}
    return Calibration.from_document(known[max(known)]) if known else UNKNOWN


def calibrated(
    learned: Learned,
    by_supports: Calibration,
    labels: Int[Tensor, " image"],
    held_out: Float[Tensor, "image way"],
) -> Learned:
    """Set the calibration found on held-out supports, with the base's own as a fallback."""
    calibration = by_supports.backed_by(learned.calibration)
    said = HeldOut(torch.arange(len(labels)), labels, calibration.sharpen(held_out))
    return replace(learned, calibration=calibration, held_out=said)


def calibrating(labels: Int[Tensor, " image"]) -> Int[Tensor, " chosen"]:
    """Choose the supports to hold out: at most `CALIBRATED`, spread over the classes that have enough images."""
    counts = labels.bincount()
    eligible = torch.nonzero(counts[labels] >= ENOUGH).flatten()
    return eligible[:: max(1, -(-len(eligible) // CALIBRATED))]
