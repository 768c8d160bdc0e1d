"""Labels of any kind outside, class numbers inside; and answers: labels, rankings, and "none of these"."""

import math
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from implanting.errors import CannotRefuse, ConfigError, DataError
from implanting.fewshot import Calibration
from implanting.images import ImageSource

Labels = Sequence[Any] | np.ndarray

KINDS = {"U": "strings", "i": "integers", "u": "integers", "b": "booleans", "f": "floats"}
"""What labels may be, by the kind of numpy's type."""


Ranking = tuple[tuple[Hashable, float], ...]
"""Classes with their probabilities, the most probable first."""


def as_labels(labels: Labels, images: int) -> np.ndarray:
    """One label per image, all of one kind."""
    array = np.asarray(labels)
    _check_distinct(labels, array)
    if array.ndim != 1 or len(array) != images:
        raise DataError(f"{images} images have labels of shape {list(array.shape)}; needed is one label per image")
    if len({isinstance(label, str) for label in labels}) > 1:
        raise DataError("some labels are strings and some are not: make them all one or the other")
    kind = kind_of(array)
    # scikit-learn's own check is not used: it warns of many classes with few images each, our daily bread
    if len(array) and (kind is None or (kind == "floats" and not np.array_equal(array, np.rint(array)))):
        raise DataError(
            f"Unknown label type: {'continuous' if kind else array.dtype}; labels are such as {array.tolist()[0]!r}, "
            "and needed are strings or integers"
        )
    return array


def _check_distinct(labels: Labels, array: np.ndarray) -> None:
    """Refuse labels that numpy would merge in a common type: 2**63 beside -1, or names that differ by a NUL."""
    if isinstance(labels, np.ndarray) or array.ndim != 1:
        return
    for given, kept in zip(labels, array.tolist(), strict=True):
        if isinstance(given, str) and "\0" in given:
            raise DataError(f"the label {given!r} holds a NUL, which is lost at the end of names: leave it out")
        if isinstance(given, int) and not isinstance(given, bool) and isinstance(kept, float):
            raise DataError(f"the label {given} is beyond what integers of 64 bits hold: use smaller numbers or names")


def kind_of(labels: np.ndarray) -> str | None:
    """Strings, integers and so on; None for what cannot be a label."""
    types = {labels.dtype} if labels.dtype.kind != "O" else {np.dtype(type(label)) for label in labels.tolist()}
    kinds = {KINDS.get(type_.kind) for type_ in types}
    return kinds.pop() if len(kinds) == 1 else None


def is_like(label: Hashable, classes: np.ndarray) -> bool:
    """Whether a label could stand among these classes."""
    return KINDS.get(np.dtype(type(label)).kind) == kind_of(classes)


def class_numbers(labels: np.ndarray, classes: np.ndarray) -> Int[Tensor, " image"]:
    """The place of each label among the sorted classes, all of which must be there."""
    known = frozenset(classes.tolist())
    for label in dict.fromkeys(labels.tolist()):
        if label not in known:
            raise ConfigError(
                f"there is no class {label!r}; there are {some(classes.tolist())}: name one of them, or add it first"
            )
    return torch.from_numpy(np.searchsorted(classes, labels).astype(np.int64))


def some(labels: Sequence[Hashable], most: int = 8) -> str:
    """A few labels for a message."""
    return ", ".join(map(repr, labels[:most])) + (f" and {len(labels) - most} more" if len(labels) > most else "")


def first_best(probabilities: Float[Tensor, "image way"]) -> Int[Tensor, " image"]:
    """The most probable class of each image; of equally probable ones the first."""
    return (probabilities == probabilities.amax(1, keepdim=True)).int().argmax(1)


def from_text(text: str, classes: np.ndarray) -> Any:
    """A label that was typed, as the classes have them: a number where they are numbers."""
    return int(text) if classes.dtype.kind in "iu" and text.lstrip("-").isdigit() else text


@dataclass(frozen=True)
class Answer:
    """What a classifier says of an image."""

    source: ImageSource
    label: Hashable
    """The class, or the classifier's label for "none of these"."""
    ranking: Ranking
    """The most probable classes with their probabilities."""
    open_set_score: float
    seen: bool = False
    """Whether the classifier was fitted to this very image."""


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
        answers = self.classes[first_best(probabilities).numpy()]
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
                f"{100 * self.refuse:g} % that may be refused; give more images per class, or raise `refuse`",
                CannotRefuse,
                stacklevel=4,  # of the classifier's caller
            )
        return threshold

    def rankings(self, probabilities: Float[Tensor, "image way"], top: int) -> list[Ranking]:
        """The `top` most probable classes of each image; of equally probable ones the first, as `labels` answers."""
        best = probabilities.sort(dim=1, descending=True, stable=True)
        names = self.classes[best.indices[:, :top].numpy()].tolist()
        return [tuple(zip(*row, strict=True)) for row in zip(names, best.values[:, :top].tolist(), strict=True)]
