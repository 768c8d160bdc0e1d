"""Probabilities and open-set scores as answers: labels, rankings, and "none of these"."""

import math
import warnings
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from implanting.classifier.labels import is_like
from implanting.errors import CannotRefuse
from implanting.fewshot import Calibration
from implanting.images import ImageSource

Ranking = tuple[tuple[Hashable, float], ...]
"""Classes with their probabilities, the most probable first."""


@dataclass(frozen=True)
class Answer:
    """What a classifier says of an image."""

    source: ImageSource
    label: Hashable
    """The class, or the classifier's label for "none of these"."""
    ranking: Ranking
    """The most probable classes with their probabilities."""
    open_set_score: float


@dataclass(frozen=True)
class Answering:
    """How a classifier answers: by its classes, and where an image fits none of them."""

    classes: np.ndarray
    calibration: Calibration
    unknown: Hashable | None
    """The label for images that fit no class; None always answers with a class."""
    refuse: float
    """The share of images of known classes that may be answered so."""

    def labels(self, probabilities: Float[Tensor, "image way"], scores: Float[Tensor, " image"]) -> np.ndarray:
        """The class of each image, or `unknown` where its open-set score is too high."""
        answers = self.classes[probabilities.argmax(1).numpy()]
        if self.unknown is None:
            return answers
        refused = (scores > self.threshold()).numpy()
        if not is_like(self.unknown, answers):
            answers = answers.astype(object)
        return np.where(refused, np.asarray(self.unknown), answers)  # as an array: a plain number could overflow

    def threshold(self) -> float:
        """The open-set score above which an image fits no class."""
        threshold = self.calibration.threshold(self.refuse)
        if math.isinf(threshold):
            known = len(self.calibration.known)
            warnings.warn(
                f"no image is answered {self.unknown!r}: {known} images that were not fitted to cannot tell the "
                f"{100 * self.refuse:g} % that may be refused; give more images a class, or raise refuse",
                CannotRefuse,
                stacklevel=4,  # of the classifier's caller
            )
        return threshold

    def rankings(self, probabilities: Float[Tensor, "image way"], top: int) -> list[Ranking]:
        """The `top` most probable classes of each image."""
        best = probabilities.topk(min(top, len(self.classes)))
        names = self.classes[best.indices.numpy()].tolist()
        return [tuple(zip(*row, strict=True)) for row in zip(names, best.values.tolist(), strict=True)]
