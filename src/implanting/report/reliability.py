"""The calibration curve: the share of right answers against their probability."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from implanting.fewshot import Share

BINS = 10

SIDE, MARGIN = 240, 34
"""Side and margin of the drawing, in its own units."""


class Bin(NamedTuple):
    """Answers of similar probability: their mean probability, and the share of right answers."""

    probability: float
    share: Share


def bins_of(probabilities: Float[np.ndarray, " image"], right: Bool[np.ndarray, " image"]) -> list[Bin]:
    """Group answers by probability into bins of a tenth; empty bins are left out."""
    number = (probabilities * BINS).astype(int).clip(0, BINS - 1)
    return [
        Bin(
            float(probabilities[number == one].mean()),
            Share(int(right[number == one].sum()), int((number == one).sum())),
        )
        for one in np.unique(number)
    ]


def curve(bins: list[Bin]) -> str:
    """Draw one point per bin, larger for more images, with the interval of its share."""
    total = sum(one.share.total for one in bins)
    points = "".join(_point(one, total) for one in bins)
    low, high = MARGIN, MARGIN + SIDE
    ticks = "".join(
        f'<text x="{_across(tenth / 10):.0f}" y="{high + 16}" text-anchor="middle">{10 * tenth}</text>'
        f'<text x="{low - 6}" y="{_up(tenth / 10) + 4:.0f}" text-anchor="end">{10 * tenth}</text>'
        for tenth in (0, 5, 10)
    )
    return (
        f'<svg class=curve viewBox="0 0 {SIDE + 2 * MARGIN} {SIDE + 2 * MARGIN}" role="img" '
        f'aria-label="probability of the answer against share of right answers">'
        f'<rect x="{low}" y="{low}" width="{SIDE}" height="{SIDE}" class="frame"></rect>'
        f'<line x1="{low}" y1="{high}" x2="{high}" y2="{low}" class="ideal"></line>{points}{ticks}'
        f'<text x="{low + SIDE / 2}" y="{high + 31}" text-anchor="middle">probability, %</text>'
        f'<text x="{low - 24}" y="{low - 10}">right, %</text></svg>'
    )


def _point(one: Bin, total: int) -> str:
    left, (low, high) = _across(one.probability), one.share.interval
    radius = 2.5 + 9 * (one.share.total / total) ** 0.5
    return (
        f"<g><title>{one.share.right} of {one.share.total} right at {100 * one.probability:.0f} % on average</title>"
        f'<line x1="{left:.1f}" y1="{_up(low):.1f}" x2="{left:.1f}" y2="{_up(high):.1f}" class="interval"></line>'
        f'<circle cx="{left:.1f}" cy="{_up(one.share.mean):.1f}" r="{radius:.1f}"></circle></g>'
    )


def _across(share: float) -> float:
    return MARGIN + SIDE * share


def _up(share: float) -> float:
    return MARGIN + SIDE * (1 - share)


def note(bins: list[Bin]) -> str:
    """Explain how to read the curve, and give the mean distance from the diagonal."""
    total = sum(one.share.total for one in bins)
    error = sum(one.share.total * abs(one.share.mean - one.probability) for one in bins) / total
    return (
        f"Likeliest classes of {total} images of known classes, grouped by probability; lines are Wilson's 95 % "
        "intervals, and larger points have more images. On the diagonal, answers of 80 % are right four times in five; "
        f"below it, answers are overconfident. The mean distance from it is {100 * error:.1f} points."
    )
