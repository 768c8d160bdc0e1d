"""`read_dataset`: recognise the format at a path and read one split."""

from collections.abc import Callable
from pathlib import Path

from implanting.config import MEMORY_BUDGET
from implanting.datasets import cifar, folders, pickles
from implanting.datasets.assembling import Options, SplitReaders
from implanting.datasets.image_set import ImageSet
from implanting.datasets.splits import SPLITS, split_name
from implanting.errors import DataError, SplitMissing
from implanting.runtime import Progress, silent

FINDERS: tuple[Callable[[Path, Options], SplitReaders], ...] = (
    cifar.find,
    pickles.find,
    folders.find_tables,
    folders.find_folders,
)
"""The readers, in the order in which they are tried."""

LOOKED_FOR = (cifar.LOOKED_FOR, pickles.LOOKED_FOR, folders.TABLES, folders.FOLDERS)

KNOWN_SPLITS = (*SPLITS, *pickles.TRAIN_PHASES)


def read_dataset(
    path: str | Path,
    split: str = "train",
    *,
    splits: str | Path | None = None,
    default_splits: str | Path | None = None,
    split_seed: int = 0,
    image_size: int | None = None,
    progress: Progress = silent,
    budget: int = MEMORY_BUDGET,
) -> ImageSet:
    """Read one split of the data set at `path`, a folder or a file; `docs/data.md` lists the formats.

    `splits` names class lists for data without splits (fc100, cifar-fs, miniimagenet, or a JSON or csv file); without
    it, a folder of class folders is split by `split_seed`. For data with its own splits, `splits` is an error and
    `default_splits` is ignored. Images that take more than `budget` bytes are memory-mapped.
    """
    split = split_name(split)
    if split not in KNOWN_SPLITS:
        raise DataError(f"unknown split '{split}': choose one of {', '.join(KNOWN_SPLITS)}")
    found = _find(Path(path), Options(splits, default_splits, split_seed, image_size, progress, budget))
    if split not in found:
        raise SplitMissing(f"{path} has no split '{split}'; it has {', '.join(found)}: choose one of these")
    images = found[split]()
    if split == "train":
        images.require(2, "training", "remove the class")
    return images


def _find(path: Path, options: Options) -> SplitReaders:
    if not path.exists():
        raise DataError(f"{path} does not exist: check the path")
    for find in FINDERS:
        if found := find(path, options):
            return found
    raise DataError(f"{path} is in no known format; looked for: {'; '.join(LOOKED_FOR)}")
