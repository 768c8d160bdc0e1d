"""Conversion between the user's labels and class numbers, and answers: labels, rankings, and "none of these"."""

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
"""The kinds of labels we accept, by numpy's dtype kind."""


Ranking = tuple[tuple[Hashable, float], ...]
"""Classes with their probabilities, the most probable first."""


def as_labels(labels: Labels, images: int) -> np.ndarray:
    """Convert labels to an array with one label per image, all of one kind."""
    array = np.asarray(labels)
    _check_distinct(labels, array)
    if array.ndim != 1 or len(array) != images:
        raise DataError(f"{images} images have labels of shape {list(array.shape)}; needed is one label per image")
    if len({isinstance(label, str) for label in labels}) > 1:
        raise DataError("some labels are strings and some are not: make them all one or the other")
    kind = kind_of(array)
    # we do not use scikit-learn's check: it warns about many classes with few images each, our normal case
    if len(array) and (kind is None or (kind == "floats" and not np.array_equal(array, np.rint(array)))):
        raise DataError(
            f"Unknown label type: {'continuous' if kind else array.dtype}; found labels such as {array.tolist()[0]!r}; "
            "use strings or integers"
        )
    return array


def _check_distinct(labels: Labels, array: np.ndarray) -> None:
    """Reject labels that numpy's common type would merge: 2**63 together with -1, or names that differ by a NUL."""
    if isinstance(labels, np.ndarray) or array.ndim != 1:
        return
    for given, kept in zip(labels, array.tolist(), strict=True):
        if isinstance(given, str) and "\0" in given:
            raise DataError(f"the label {given!r} holds a NUL, which is lost at the end of names: leave it out")
        if isinstance(given, int) and not isinstance(given, bool) and isinstance(kept, float):
            raise DataError(f"the label {given} is beyond what integers of 64 bits hold: use smaller numbers or names")


def kind_of(labels: np.ndarray) -> str | None:
    """Return the kind of the labels (strings, integers and so on), or None if they cannot be labels."""
    types = {labels.dtype} if labels.dtype.kind != "O" else {np.dtype(type(label)) for label in labels.tolist()}
    kinds = {KINDS.get(type_.kind) for type_ in types}
    return kinds.pop() if len(kinds) == 1 else None


def is_like(label: Hashable, classes: np.ndarray) -> bool:
    """Whether a label is of the same kind as these classes."""
    return KINDS.get(np.dtype(type(label)).kind) == kind_of(classes)


def class_numbers(labels: np.ndarray, classes: np.ndarray) -> Int[Tensor, " image"]:
    """Return the index of each label in the sorted classes; an unknown label is an error."""
    known = frozenset(classes.tolist())
    for label in dict.fromkeys(labels.tolist()):
        if label not in known:
            raise ConfigError(
                f"there is no class {label!r}; there are {some(classes.tolist())}: name one of them, or add it first"
            )
    return torch.from_numpy(np.searchsorted(classes, labels).astype(np.int64))


def some(labels: Sequence[Hashable], most: int = 8) -> str:
    """List up to `most` labels for a message."""
    return ", ".join(map(repr, labels[:most])) + (f" and {len(labels) - most} more" if len(labels) > most else "")


def first_best(probabilities: Float[Tensor, "image way"]) -> Int[Tensor, " image"]:
    """Return the most probable class of each image, the first one in case of a tie."""
    return (probabilities == probabilities.amax(1, keepdim=True)).int().argmax(1)


def from_text(text: str, classes: np.ndarray) -> Any:
    """Convert a typed label to the classes' type: to an integer if they are integers."""
    return int(text) if classes.dtype.kind in "iu" and text.lstrip("-").isdigit() else text


@dataclass(frozen=True)
class Answer:
    """The answer of a classifier to one image."""

    source: ImageSource
    label: Hashable
    """The class, or the classifier's label for "none of these"."""
    ranking: Ranking
    """The most probable classes with their probabilities."""
    open_set_score: float
    seen: bool = False
    """Whether this image, pixel for pixel, was among the examples."""


@dataclass(frozen=True)
class Answering:
    """Turns probabilities and open-set scores into labels, including the label for images that fit no class."""

    classes: np.ndarray
    calibration: Calibration
    unknown: Hashable | None
    """The label for images that fit no class; with None, the answer is always a class."""
    refuse: float
    """The share of images of known classes that may be answered with `unknown`."""

    def labels(self, probabilities: Float[Tensor, "image way"], scores: Float[Tensor, " image"]) -> np.ndarray:
        """Return the class of each image, or `unknown` if its open-set score is too high."""
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
                f"no image is answered {self.unknown!r}: {known} held-out images are too few to set a threshold for "
                f"{100 * self.refuse:g} % refused images; give more images per class, or raise `refuse`",
                CannotRefuse,
                stacklevel=4,  # of the classifier's caller
            )
        return threshold

    def rankings(self, probabilities: Float[Tensor, "image way"], top: int) -> list[Ranking]:
        """Return the `top` most probable classes of each image; ties are broken as in `labels`."""
        best = probabilities.sort(dim=1, descending=True, stable=True)
        names = self.classes[best.indices[:, :top].numpy()].tolist()
        return [tuple(zip(*row, strict=True)) for row in zip(names, best.values[:, :top].tolist(), strict=True)]
