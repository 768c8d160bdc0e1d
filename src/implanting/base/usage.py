"""Defaults for settings that the user leaves open, tuned on validation classes (`docs/lab-log.md`)."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from implanting.base.description import BaseDescription
from implanting.config import TestPooling

FEW_SHOTS = 3
"""With fewer supports per class than this, averaging several views of each may help."""

RECOGNISED, UNRECOGNISED = 7.0, 5.5
"""Bounds on the mean prominence of a base's own predictions for the supports: from the first on it recognises them, up
to the second it does not. Photos have 6.0 to 9.2, photos of 32 and 84 px 5.4 to 6.4, drawn characters 4.6 to 5.1, with
either network and at any size from 192 to 352 px."""

UNLIKE, ALIKE = 0.48, 0.60
"""Bounds on the mean likeness of its predictions for supports of different classes. Photos have 0.2 to 0.5, whatever
their size, edges of photos 0.55, and drawn characters 0.7 to 0.8."""

MIDDLE_FACTOR = 5.0
"""Images that a base neither recognises nor distinguishes are better distinguished by its middle layers, whose weight
is then multiplied by this factor."""

LEAST_DEVIATION = 1e-3
"""Smaller standard deviations of logits count as this one: equal logits differ by rounding only."""


@dataclass(frozen=True)
class Recognition:
    """How a base sees the supports of a task: three shares that sum to one."""

    recognised: float = 1.0
    """Its predictions stand out."""
    unclear: float = 0.0
    """Its predictions do not stand out, but differ from class to class: small or blurred photos."""
    alike: float = 0.0
    """Its predictions neither stand out nor differ: drawings, for instance."""

    @classmethod
    def of(cls, prominence: float, likeness: float) -> "Recognition":
        """Place a task between the bounds."""
        unrecognised = _share(prominence, RECOGNISED, UNRECOGNISED)
        alike = min(unrecognised, _share(likeness, UNLIKE, ALIKE))
        return cls(1 - unrecognised, unrecognised - alike, alike)

    def cautiously(self) -> "Recognition":
        """Count partly alike images as unclear, so that in doubt fewer known images are refused."""
        return Recognition(self.recognised, self.unclear + self.alike - self.alike**2, self.alike**2)


def _share(value: float, none: float, all_of_it: float) -> float:
    return min(max((value - none) / (all_of_it - none), 0.0), 1.0)


@dataclass(frozen=True)
class HeadDefaults:
    """How a head is trained on the readings of a base; the field defaults are for networks we know nothing about."""

    reading_weights: tuple[tuple[float, ...], ...] = ((1.0,),)
    """Rows of weights, one per reading. The first row is the default; a task uses another row if that predicts its
    held-out supports clearly better."""
    recognition: tuple[tuple[int, int], ...] = ()
    """The places of two readings of each network: the rooted probabilities of known classes, and the middle reading.
    These probabilities say how the network sees the supports; the middle readings' weights in the first row depend on
    it."""
    penalty: float = 0.03
    """The L2 penalty: half of it times the squared length of the class weights is added to the sum of
    cross-entropies."""
    few_shot_views: int = 1
    """Number of views of each support that are averaged when supports are few."""
    calibrations: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Calibrations of a head by the number of supports per class, for tasks too small to calibrate themselves. With
    `by_task`, open-set scores were measured for several numbers of classes and for each kind of `Recognition`."""

    def support_views(self, shots: int) -> int:
        """Number of views of each support that are averaged, given `shots` supports per class."""
        return self.few_shot_views if shots < FEW_SHOTS else 1

    def weights_for(self, seen: Recognition) -> tuple[tuple[float, ...], ...]:
        """Return the candidate rows of reading weights for supports seen like this; the first row is the default."""
        rule = list(self.reading_weights[0])
        for _, middle in self.recognition:
            rule[middle] *= MIDDLE_FACTOR**seen.alike
        return tuple(rule), *self.reading_weights[1:]

    def recognise(
        self, supports: Float[Tensor, "image dim"], labels: Int[Tensor, " image"], dims: Sequence[int]
    ) -> Recognition:
        """Find out how the base sees these supports; they count as recognised if its predictions are not known."""
        if not self.recognition:
            return Recognition()
        readings = supports.split(list(dims), dim=1)
        logits = [centred_logits(readings[place]) for place, _ in self.recognition]
        prominence = sum(map(mean_prominence, logits)) / len(logits)
        return Recognition.of(prominence, sum(mean_likeness(of, labels) for of in logits) / len(logits))

    def calibrations_for(self, way: int, seen: Recognition) -> Mapping[int, Mapping[str, Any]]:
        """Return the calibrations for a task of `way` classes; their open-set scores are interpolated."""
        return {
            shots: {**stored, "known": _interpolated(stored["by_task"], way, seen.cautiously())}
            if "by_task" in stored
            else stored
            for shots, stored in self.calibrations.items()
        }


def _interpolated(by_task: Mapping[str, Mapping[str, Sequence[float]]], way: int, seen: Recognition) -> list[float]:
    """Interpolate open-set scores in the logarithm of the number of classes and between the kinds of images."""
    ways = sorted(int(number) for number in by_task["recognised"])
    place = float(np.interp(math.log(way), [math.log(number) for number in ways], list(range(len(ways)))))
    below, above = str(ways[math.floor(place)]), str(ways[math.ceil(place)])
    further = place - math.floor(place)
    scores = [
        share * ((1 - further) * np.asarray(by_task[kind][below]) + further * np.asarray(by_task[kind][above]))
        for kind, share in dataclasses.asdict(seen).items()
    ]
    interpolated: list[float] = np.sum(scores, axis=0).tolist()
    return interpolated


def centred_logits(rooted: Float[Tensor, "image known_class"]) -> Float[Tensor, "image known_class"]:
    """Logits with mean zero, up to a factor, from the roots of probabilities at any temperature."""
    logits = rooted.clamp_min(1e-12).log()
    return logits - logits.mean(1, keepdim=True)


def mean_prominence(logits: Float[Tensor, "image known_class"]) -> float:
    """By how many standard deviations the largest of centred logits exceeds their mean, averaged over images.

    Like `mean_likeness` it does not depend on the scale of the logits, which changes with the size of the images.
    """
    return (logits.amax(1) / logits.std(1).clamp_min(LEAST_DEVIATION)).mean().item()


def mean_likeness(logits: Float[Tensor, "image known_class"], labels: Int[Tensor, " image"]) -> float:
    """The cosine between the centred logits of two images, averaged over pairs of images of different classes."""
    directions = F.normalize(logits, dim=1)
    counts = labels.bincount()
    sums = directions.new_zeros(len(counts), directions.shape[1]).index_add_(0, labels, directions)
    pairs = len(labels) ** 2 - counts.square().sum().item()
    return ((sums.sum(0).square().sum() - sums.square().sum()).item()) / max(pairs, 1)


GENERALISED_READINGS = (0.5, 1.0)
"""Weights of the mean and of the generalised mean of phi, for networks that read both (`docs/decisions/0023`)."""

SMALL_IMAGES = 48
"""Side in pixels up to which implants were ahead of a head from two supports per class on, if the network was trained
by dense classification (FC100 at 32 px). On miniImageNet at 84 px they cost 1.5 to 3.8 points with 2 to 10 supports,
unless they were max-pooled in training, and gained with 20; on the pooled networks of `fc100` a head was ahead of them
(docs/lab-log.md)."""


@dataclass(frozen=True)
class UsageDefaults:
    """Defaults for one base network; the field defaults are for networks we know nothing about."""

    implants_from_shots: int = 5
    """The number of supports per class from which implants help."""
    few_shot_views: int = 1
    """Number of views of each support that a prototype averages when supports are few."""
    calibrations: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Calibrations of prototypes by the number of supports per class."""
    head: HeadDefaults = field(default_factory=HeadDefaults)
    """How a head is trained."""
    pooling: TestPooling | None = None
    """Pooling of supports and queries in tests by prototypes, implants and other methods, if none is named; None: that
    of the paper."""
    implants_beat_head: bool = False
    """Whether implants with prototypes are better than a head, if both are possible."""

    def support_views(self, shots: int) -> int:
        """Number of views of each support that a prototype averages, given `shots` supports per class."""
        return self.few_shot_views if shots < FEW_SHOTS else 1

    def for_scaled_tau(self, factor: float) -> "UsageDefaults":
        """Adapt to a tau that is `factor` times as large, by dividing the powers of the calibrations by it."""
        scaled = {shots: {**stored, "power": stored["power"] / factor} for shots, stored in self.calibrations.items()}
        return dataclasses.replace(self, calibrations=scaled)


def usage_of(description: BaseDescription, *, generalised: bool = False) -> UsageDefaults:
    """Defaults for a network trained by stage 1, from validation classes of FC100 (32 px) and miniImageNet (84 px).

    `generalised`: it knows the mean direction of its base images, so that gem-centred pools them.
    """
    calibration = description.training.calibration
    gain = max(description.image_size) <= SMALL_IMAGES and description.config.pooling == "dense"
    return UsageDefaults(
        implants_from_shots=2 if gain else 20,
        calibrations={1: calibration} if calibration else {},
        head=HeadDefaults(reading_weights=(GENERALISED_READINGS,)) if generalised else HeadDefaults(),
        pooling="gem-centred" if generalised else None,
        implants_beat_head=gain,
    )
