"""Calibration: probabilities that match frequencies, and the threshold for the answer "none of these".

Both are estimated from images of the classes that the classifier was not fitted to: held-out supports or, if a task has
too few, the validation images of the base network. Probabilities p are sharpened or flattened to p^power, which does
not change the answer. An image fits no class if its open-set score exceeds the scores of most images of known classes.
If a task has too few images to estimate the upper tail of these scores, its shape is taken from the base's validation
images.
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
"""Candidate powers: 0.1 to 10, forty per decade."""

AT_ONCE = 2**20
"""Probabilities sharpened per step; many images of many classes would not fit in memory for all powers at once."""

DOUBT = 20.0
"""Strength of the prior on the power: how many images it takes to accept a tenfold change (`docs/lab-log.md`)."""

QUANTILES = 101
"""The largest number of scores that are stored; more scores are represented by this many quantiles."""


@dataclass(frozen=True)
class Calibration:
    """The power that sharpens probabilities, and the open-set scores of images of known classes."""

    power: float
    known: tuple[float, ...]
    """Open-set scores of held-out images of known classes, ascending; may be empty."""
    told_by: Literal["supports", "base", "nothing"]
    """The origin of this calibration."""
    usual: tuple[float, ...] = ()
    """Open-set scores of the base's validation images, used if `known` has too few for a share; may be empty."""

    def backed_by(self, base: "Calibration") -> "Calibration":
        """Add the scores of the base's validation images as a fallback."""
        return dataclasses.replace(self, usual=base.known)

    def sharpen(self, probabilities: Float[Tensor, "image way"]) -> Float[Tensor, "image way"]:
        """Return p^power, normalised."""
        return torch.softmax(self.power * probabilities.clamp_min(1e-12).log(), dim=-1)

    def threshold(self, refuse: float) -> float:
        """Return the open-set score above which an image fits no class; it refuses a share `refuse` of known images.

        If there are too few scores for this share, use the predicted distribution, but never a threshold below the
        highest known score. If that is not possible either, nothing is refused.
        """
        threshold = _conformal(self.known, refuse)
        if threshold < math.inf:
            return threshold
        return max((*self.known[-1:], _conformal(self.predicted(), refuse)))

    def predicted(self) -> list[float]:
        """The base's scores, shifted and scaled to the distribution that the task's own scores predict for a new image.

        If scores were normal, a new score would follow Student's distribution: n scores of variance v predict a
        variance of v (1 + 1/n) (n - 1)/(n - 3).
        """
        count = len(self.known)
        if count <= 3 or not self.usual:
            return []
        known, usual = (torch.tensor(scores, dtype=torch.float64) for scores in (self.known, self.usual))
        deviation = known.std() * math.sqrt((1 + 1 / count) * (count - 1) / (count - 3))
        return (known.mean() + deviation / usual.std() * (usual - usual.mean())).tolist()

    def document(self) -> dict[str, Any]:
        """Return the calibration as JSON values."""
        plain = {"power": self.power, "known": list(self.known), "told_by": self.told_by}
        return plain | ({"usual": list(self.usual)} if self.usual else {})

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Calibration":
        """Rebuild the result of `document`."""
        known, usual = (tuple(map(float, scores)) for scores in (document["known"], document.get("usual", ())))
        return cls(float(document["power"]), known, document["told_by"], usual)


UNKNOWN = Calibration(1.0, (), "nothing")
"""The calibration if nothing is known: probabilities are unchanged, and every image fits a class."""


def _conformal(known: Sequence[float], refuse: float) -> float:
    """The score that a new score exceeds with probability `refuse`; infinite if there are too few known scores.

    Its rank among the ascending scores is that of conformal prediction, (n + 1)(1 - refuse). Between two ranks it is
    interpolated; rounded up, a threshold from 15 scores would refuse 6 % where 10 % was asked.
    """
    rank = round((len(known) + 1) * (1 - refuse), 9)  # 20 * 0.95 must be 19, not a little more
    if not 1 <= rank <= len(known):
        return math.inf
    below, above = known[math.floor(rank) - 1], known[math.ceil(rank) - 1]
    return below + (rank - math.floor(rank)) * (above - below)


def open_set_score(cosines: Float[Tensor, "*batch location way"]) -> Float[Tensor, "*batch"]:
    """Compute how poorly an image fits every class: minus the largest of its mean cosines with the prototypes."""
    return -cosines.mean(-2).amax(-1)


def calibrate(
    probabilities: Float[Tensor, "image way"],
    labels: Int[Tensor, " image"],
    open_set_scores: Float[Tensor, " image"],
    told_by: Literal["supports", "base"] = "supports",
    usual: float = 1.0,
) -> Calibration:
    """Calibrate on predictions for held-out images; with few images, the power stays near `usual`."""
    power = sharpness(probabilities.double().clamp_min(1e-12).log(), labels, usual)
    return Calibration(power, tuple(_few(open_set_scores.double()).tolist()), told_by)


def sharpness(logarithms: Float64[Tensor, "image way"], labels: Int[Tensor, " image"], usual: float = 1.0) -> float:
    """Find the power of probabilities that makes these labels most likely; with few images it stays near `usual`."""
    powers = usual * POWERS
    losses = []
    for some in powers.split(max(1, AT_ONCE // max(1, logarithms.numel()))):
        sharpened = torch.log_softmax(some[:, None, None] * logarithms, dim=-1)
        losses.append(-sharpened.gather(2, labels[None, :, None].expand(len(some), -1, 1)).sum((1, 2)))
    return powers[int((torch.cat(losses) + DOUBT * POWERS.log10().square()).argmin())].item()


def _few(scores: Float64[Tensor, " image"]) -> Float64[Tensor, " score"]:
    """Sort the scores, and represent many of them by their quantiles."""
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
