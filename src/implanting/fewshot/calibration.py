"""How sure a classifier is: probabilities that mean what they say, and when to answer "none of these".

Both are estimated from images of the classes that were not fitted to: supports that were held out, or, where a task
has too few, the validation images of the base network. Probabilities p are sharpened or flattened to p^power, which
keeps the answer. An image fits no class where its open-set score is above the scores of most images of known classes;
how far the few highest of them reach is taken from the base's validation images where a task's own are too few.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

POWERS = torch.logspace(-1, 1, 81, dtype=torch.float64)
"""Where the power is searched: a tenth to ten, forty steps a decade."""

AT_ONCE = 2**20
"""Probabilities that are sharpened at once: many images of many classes would not fit in memory for all powers."""

DOUBT = 20.0
"""How many images must speak for a power ten times as large or small before it is believed (`docs/lab-log.md`)."""

QUANTILES = 101
"""Numbers that stand for the scores of known images where there are more of them."""


@dataclass(frozen=True)
class Calibration:
    """How probabilities are sharpened, and what open-set scores images of known classes have."""

    power: float
    known: tuple[float, ...]
    """Open-set scores of images of known classes that were not fitted to, in rising order; may be empty."""
    told_by: Literal["supports", "base", "nothing"]
    """Where this comes from."""
    usual: tuple[float, ...] = ()
    """Such scores of the base's validation images, for shares that `known` is too short to tell; may be empty."""

    def backed_by(self, base: "Calibration") -> "Calibration":
        """The same, with the scores of the base's validation images to fall back on."""
        return dataclasses.replace(self, usual=base.known)

    def sharpen(self, probabilities: Float[Tensor, "image way"]) -> Float[Tensor, "image way"]:
        """p^power, normalised."""
        return torch.softmax(self.power * probabilities.clamp_min(1e-12).log(), dim=-1)

    def threshold(self, refuse: float) -> float:
        """The score above which an image fits no class, so that a share `refuse` of known images is refused.

        With too few scores for this share, the predicted distribution is used; no known image is refused then.
        Where these cannot tell it either, nothing is refused.
        """
        threshold = _conformal(self.known, refuse)
        if threshold < math.inf:
            return threshold
        return max((*self.known[-1:], _conformal(self.predicted(), refuse)))

    def predicted(self) -> list[float]:
        """The usual scores, moved and stretched to what a task's own let expect of a further known image.

        If scores were normal, that one would follow Student's distribution: n scores of variance v predict a variance
        of v (1 + 1/n) (n - 1)/(n - 3).
        """
        count = len(self.known)
        if count <= 3 or not self.usual:
            return []
        known, usual = (torch.tensor(scores, dtype=torch.float64) for scores in (self.known, self.usual))
        deviation = known.std() * math.sqrt((1 + 1 / count) * (count - 1) / (count - 3))
        return (known.mean() + deviation / usual.std() * (usual - usual.mean())).tolist()

    def document(self) -> dict[str, Any]:
        """As JSON."""
        plain = {"power": self.power, "known": list(self.known), "told_by": self.told_by}
        return plain | ({"usual": list(self.usual)} if self.usual else {})

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Calibration":
        """The inverse of `document`."""
        known, usual = (tuple(map(float, scores)) for scores in (document["known"], document.get("usual", ())))
        return cls(float(document["power"]), known, document["told_by"], usual)


UNKNOWN = Calibration(1.0, (), "nothing")
"""Where nothing is known: probabilities as they are, and every image fits a class."""


def _conformal(known: Sequence[float], refuse: float) -> float:
    """The one of rising scores that a further one exceeds with probability `refuse` or less; infinite if none does.

    Its rank is that of conformal prediction: (n + 1)(1 - refuse), rounded up.
    """
    rank = math.ceil((len(known) + 1) * (1 - refuse))
    return known[rank - 1] if 1 <= rank <= len(known) else math.inf


def open_set_score(cosines: Float[Tensor, "*batch location way"]) -> Float[Tensor, "*batch"]:
    """How little an image looks like any class: minus the largest of its mean cosines with the prototypes."""
    return -cosines.mean(-2).amax(-1)


def calibrate(
    probabilities: Float[Tensor, "image way"],
    labels: Int[Tensor, " image"],
    open_set_scores: Float[Tensor, " image"],
    told_by: Literal["supports", "base"] = "supports",
    usual: float = 1.0,
) -> Calibration:
    """From what was said of images that were not fitted to; with few of them, the power stays near the usual one."""
    power = sharpness(probabilities.double().clamp_min(1e-12).log(), labels, usual)
    return Calibration(power, tuple(_few(open_set_scores.double()).tolist()), told_by)


def sharpness(logarithms: Float64[Tensor, "image way"], labels: Int[Tensor, " image"], usual: float = 1.0) -> float:
    """The power of probabilities that makes these labels most likely; with few images it stays near the usual one."""
    powers = usual * POWERS
    losses = []
    for some in powers.split(max(1, AT_ONCE // max(1, logarithms.numel()))):
        sharpened = torch.log_softmax(some[:, None, None] * logarithms, dim=-1)
        losses.append(-sharpened.gather(2, labels[None, :, None].expand(len(some), -1, 1)).sum((1, 2)))
    return powers[int((torch.cat(losses) + DOUBT * POWERS.log10().square()).argmin())].item()


def _few(scores: Float64[Tensor, " image"]) -> Float64[Tensor, " score"]:
    """In rising order; many scores are represented by their quantiles."""
    if len(scores) > QUANTILES:
        return torch.quantile(scores, torch.linspace(0, 1, QUANTILES, dtype=torch.float64))
    return scores.sort().values


def calibration_error(
    probabilities: Float[Tensor, "image way"], labels: Int[Tensor, " image"], bins: int = 15
) -> float:
    """Expected calibration error (Guo et al. 2017): the mean gap between confidence and accuracy, over equal bins."""
    confidence, answers = probabilities.max(-1)
    right = (answers == labels).double()
    which = (confidence * bins).long().clamp_max(bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64).index_add(0, which, right - confidence.double())
    return (gaps.abs().sum() / len(labels)).item()
