"""CIFAR-100 in its Python version, as cifar-100-python.tar.gz or unpacked, under the class lists of FC100 or CIFAR-FS.

Few-shot learning knows no train and test images: both files are merged, which gives 600 images per class.
"""

import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from implanting.datasets.assembling import Options, SplitReaders, set_of_arrays
from implanting.datasets.image_set import ImageSet
from implanting.datasets.safe_pickle import as_text, load_pickle_from
from implanting.datasets.splits import NAMED, read_class_lists
from implanting.errors import DataError

FOLDER, ARCHIVE = "cifar-100-python", "cifar-100-python.tar.gz"
PARTS = ("train", "test", "meta")
CHUNK = 1024
"""Images brought from planes to pixels at once; together they would take twice the memory."""
LOOKED_FOR = f"{ARCHIVE}, or the folder {FOLDER} with the files {', '.join(PARTS)}"


def find(path: Path, options: Options) -> SplitReaders:
    """Readers for an archive, for its folder, or for the folder that holds either."""
    source = next((place for place in (path, path / FOLDER, path / ARCHIVE) if _is_cifar(place)), None)
    if source is None:
        return {}
    splits = options.splits or options.default_splits
    if splits is None:
        raise DataError(
            f"{source} comes without few-shot splits: give `splits` fc100, cifar-fs or a file of class names"
        )
    lists = read_class_lists(splits)
    title = {"fc100": "FC100", "cifar-fs": "CIFAR-FS"}.get(str(splits).lower(), "CIFAR-100")
    return {split: partial(read, source, classes, f"{title} {split}", options) for split, classes in lists.items()}


def read(source: Path, classes: list[str], name: str, options: Options) -> ImageSet:
    """All images of some classes."""
    fine_names = [as_text(label) for label in _load(source, "meta", "fine_label_names")[0]]
    if unknown := [label for label in classes if label not in fine_names]:
        raise DataError(
            f"{source} has no class '{unknown[0]}', which `splits` {options.splits} lists; it has {len(fine_names)} "
            f"classes from '{fine_names[0]}' to '{fine_names[-1]}', and {NAMED[0]} and {NAMED[1]} fit"
        )
    wanted = [fine_names.index(label) for label in classes]
    parts = [_read_part(source, part, wanted) for part in ("train", "test")]
    images, ids = (np.concatenate(halves) for halves in zip(*parts, strict=True))
    return set_of_arrays(name, images, ids, dict(enumerate(fine_names)), options)


def _is_cifar(place: Path) -> bool:
    if place.is_file():
        return tarfile.is_tarfile(place)
    return all((place / part).is_file() for part in PARTS)


def _read_part(source: Path, part: str, wanted: list[int]) -> tuple[UInt8[np.ndarray, "image 32 32 3"], np.ndarray]:
    """The images of the wanted classes, and their class ids."""
    data, labels = _load(source, part, "data", "fine_labels")
    if len(data) != len(labels) or data.dtype != np.uint8 or data.shape[1:] != (3 * 32 * 32,):
        raise DataError(
            f"{source}: {part} has data {data.dtype} {list(data.shape)} and {len(labels)} labels; needed is uint8 "
            "[image, 3072] and as many labels: get it again"
        )
    labels = np.asarray(labels)
    chosen = np.flatnonzero(np.isin(labels, wanted))
    images = np.empty((len(chosen), 32, 32, 3), np.uint8)
    for start in range(0, len(chosen), CHUNK):
        rows = slice(start, start + CHUNK)
        images[rows] = data[chosen[rows]].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return images, labels[chosen]


def _load(source: Path, part: str, *keys: str) -> list[Any]:
    with _open_part(source, part) as file:
        content = load_pickle_from(file, f"{source}: {part}")
    if not isinstance(content, dict) or not all(key in content for key in keys):
        raise DataError(f"{source}: {part} lacks {' or '.join(keys)}; needed is the Python version of CIFAR-100")
    return [content[key] for key in keys]


@contextmanager
def _open_part(source: Path, part: str) -> Iterator[BufferedReader]:
    if source.is_dir():
        with (source / part).open("rb") as file:
            yield file
        return
    try:
        with tarfile.open(source) as archive:
            member: Any = archive.extractfile(f"{FOLDER}/{part}")
            yield member
    except KeyError:
        raise DataError(f"{source} holds no {FOLDER}/{part}; needed is the Python version of CIFAR-100") from None
    except (tarfile.TarError, EOFError, OSError, zlib.error) as fault:
        raise DataError(f"{source} is damaged or truncated ({fault}): get it again") from fault
