"""How sure a classifier is: probabilities that mean what they say, and when to answer "none of these".

Both are told from images of the classes that were not fitted to: supports that were held out, or, where a task has too
few, the validation images of the base network. Probabilities p are sharpened or flattened to p^power, which keeps the
answer. An image fits no class where its open-set score is above the scores of most images of known classes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

POWERS = torch.logspace(-1, 1, 81, dtype=torch.float64)
"""Where the power is searched: a tenth to ten, forty steps a decade."""

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

    def sharpen(self, probabilities: Float[Tensor, "image way"]) -> Float[Tensor, "image way"]:
        """p^power, normalised."""
        return torch.softmax(self.power * probabilities.clamp_min(1e-12).log(), dim=-1)

    def threshold(self, refuse: float) -> float:
        """The score above which an image fits no class, so that a share `refuse` of known images is refused.

        The rank is that of conformal prediction: (n + 1)(1 - refuse), rounded up; with too few scores to tell, nothing
        is refused.
        """
        rank = math.ceil((len(self.known) + 1) * (1 - refuse))
        return self.known[rank - 1] if 1 <= rank <= len(self.known) else math.inf

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"power": self.power, "known": list(self.known), "told_by": self.told_by}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Calibration":
        """The inverse of `document`."""
        return cls(float(document["power"]), tuple(map(float, document["known"])), document["told_by"])


UNKNOWN = Calibration(1.0, (), "nothing")
"""Where nothing is known: probabilities as they are, and every image fits a class."""


def open_set_score(cosines: Float[Tensor, "*batch location way"]) -> Float[Tensor, "*batch"]:
    """How little an image looks like any class: minus the largest of its mean cosines with the prototypes."""
    return -cosines.mean(-2).amax(-1)


def calibrate(
    probabilities: Float[Tensor, "image way"],
    labels: Int[Tensor, " image"],
    open_set_scores: Float[Tensor, " image"],
    told_by: Literal["supports", "base"] = "supports",
) -> Calibration:
    """From what was said of images that were not fitted to; with few of them, the power stays near one."""
    logarithms = probabilities.double().clamp_min(1e-12).log()
    sharpened = torch.log_softmax(POWERS[:, None, None] * logarithms, dim=-1)
    loss = -sharpened.gather(2, labels[None, :, None].expand(len(POWERS), -1, 1)).sum((1, 2))
    doubt = DOUBT * POWERS.log10().square()
    power = POWERS[int((loss + doubt).argmin())].item()
    return Calibration(power, tuple(few(open_set_scores.double()).tolist()), told_by)


def few(scores: Float64[Tensor, " image"]) -> Float64[Tensor, " score"]:
    """In rising order; many scores are told by their quantiles."""
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
