"""Code shared by all readers: the options, and how file lists or arrays become an `ImageSet`.

Each reader module has a function `find(path, options)`, which inspects the path and returns one function per split, or
nothing if it does not recognise the format. Nothing is decoded before such a function is called.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8

from implanting.config import MEMORY_BUDGET
from implanting.datasets.image_set import ImageSet
from implanting.datasets.splits import check_lists
from implanting.errors import DataError
from implanting.images import decode_all, resize_all, stored_size
from implanting.runtime import Progress, silent

SplitReaders = Mapping[str, Callable[[], ImageSet]]


@dataclass(frozen=True)
class Options:
    """How a data set is read; see `read_dataset`."""

    splits: str | Path | None = None
    default_splits: str | Path | None = None
    split_seed: int = 0
    image_size: int | None = None
    progress: Progress = silent
    budget: int = MEMORY_BUDGET


@dataclass(frozen=True)
class Listing:
    """The image files of each class of one split, and the number of other files among them."""

    classes: Mapping[str, Sequence[Path]]
    skipped: int = 0


def refuse_splits(path: Path, options: Options) -> None:
    """Raise an error if class lists are given for data that is already split."""
    if options.splits is not None:
        raise DataError(f"{path} comes with its own splits; `splits` {options.splits} would be ignored: leave it out")


def readers_of_listings(path: Path, listings: Mapping[str, Listing], options: Options) -> SplitReaders:
    """Check that no class is in two splits, and return one reader per listed split."""
    check_lists({split: listing.classes for split, listing in listings.items()}, str(path))
    name = path.resolve().name
    return {split: partial(_read, f"{name} {split}", listing, options) for split, listing in listings.items()}


def _read(name: str, listing: Listing, options: Options) -> ImageSet:
    names = sorted(listing.classes)
    paths = [path for label in names for path in listing.classes[label]]
    _check_present(name, listing, paths)
    labels = torch.repeat_interleave(torch.tensor([len(listing.classes[label]) for label in names]))
    images, resizing = decode_all(paths, options.image_size, options.progress, options.budget)
    return ImageSet(images, labels, tuple(names), name, resizing, listing.skipped, stored_size(paths[0]))


def _check_present(name: str, listing: Listing, paths: Sequence[Path]) -> None:
    if not paths and not listing.classes:
        raise DataError(f"{name}: no images are listed; expected at least one class with its images")
    if empty := [label for label, files in listing.classes.items() if not files]:
        raise DataError(
            f"{name}: {len(empty)} of {len(listing.classes)} listed classes have no images, such as '{empty[0]}': "
            "add a folder of that name or take the class off the list"
        )
    # unlike `Path.exists`, this takes a name that no file can have for one that is missing
    if missing := [path for path in paths if not os.path.exists(path)]:  # noqa: PTH110
        raise DataError(
            f"{name}: {len(missing)} of {len(paths)} listed images are missing, the first is {missing[0]}: "
            "add them or take them off the list"
        )


def set_of_arrays(
    name: str,
    images: UInt8[np.ndarray, "image height width 3"],
    class_ids: Sequence[Any] | np.ndarray,
    names: Mapping[Any, str],
    options: Options,
) -> ImageSet:
    """Make an `ImageSet` of decoded images; classes are numbered by sorted id and named by `names`, or else by id."""
    ids, labels = np.unique(np.asarray(class_ids), return_inverse=True)
    class_names = tuple(str(names.get(class_id, class_id)) for class_id in ids.tolist())
    tensor, resizing = resize_all(images, options.image_size, options.progress, options.budget)
    numbers = torch.from_numpy(labels.astype(np.int64))
    return ImageSet(tensor, numbers, class_names, name, resizing, stored_size=images.shape[1:3])
