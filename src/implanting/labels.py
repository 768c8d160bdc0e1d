"""Labels of any kind outside, class numbers inside."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from implanting.errors import ConfigError, DataError

Labels = Sequence[Any] | np.ndarray


def as_labels(labels: Labels, images: int) -> np.ndarray:
    """One label an image, all strings or all integers."""
    array = np.asarray(labels)
    if array.ndim != 1 or len(array) != images:
        raise DataError(f"{images} images have labels of shape {list(array.shape)}; needed is one label an image")
    kinds = {str if isinstance(label, str) else type(label) for label in labels}
    if str in kinds and len(kinds) > 1:
        raise DataError("some labels are strings and some are not: make them all one or the other")
    check_classification_targets(array)
    return array


def class_numbers(labels: np.ndarray, classes: np.ndarray) -> Int[Tensor, " image"]:
    """The place of each label among the sorted classes, all of which must be there."""
    known = classes.tolist()
    for label in dict.fromkeys(labels.tolist()):
        if label not in known:
            raise ConfigError(
                f"there is no class {label!r}; there are {some(known)}: name one of them, or add it first"
            )
    return torch.from_numpy(np.searchsorted(classes, labels).astype(np.int64))


def some(labels: Sequence[Hashable], most: int = 8) -> str:
    """A few labels for a message."""
    return ", ".join(map(repr, labels[:most])) + (f" and {len(labels) - most} more" if len(labels) > most else "")


def from_text(text: str, classes: np.ndarray) -> Any:
    """A label that was typed, as the classes have them: a number where they are numbers."""
    return int(text) if classes.dtype.kind in "iu" and text.lstrip("-").isdigit() else text
