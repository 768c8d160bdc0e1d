"""Labels of any kind outside, class numbers inside."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from implanting.errors import ConfigError, DataError

Labels = Sequence[Any] | np.ndarray

KINDS = {"U": "strings", "i": "integers", "u": "integers", "b": "booleans", "f": "floats"}
"""What labels may be, by the kind of numpy's type."""


def as_labels(labels: Labels, images: int) -> np.ndarray:
    """One label an image, all of one kind."""
    array = np.asarray(labels)
    if array.ndim != 1 or len(array) != images:
        raise DataError(f"{images} images have labels of shape {list(array.shape)}; needed is one label an image")
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


def from_text(text: str, classes: np.ndarray) -> Any:
    """A label that was typed, as the classes have them: a number where they are numbers."""
    return int(text) if classes.dtype.kind in "iu" and text.lstrip("-").isdigit() else text
