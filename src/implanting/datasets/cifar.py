"""CIFAR-100 in its Python version, as cifar-100-python.tar.gz or unpacked, split by the classes of FC100 or CIFAR-FS.

Few-shot learning splits classes, not images, so the train and test files are merged into 600 images per class.
"""

import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from implanting.datasets.assembling import Options, SplitReaders, set_of_arrays
from implanting.datasets.image_set import ImageSet
from implanting.datasets.pickles import in_words, list_of, name_of_class
from implanting.datasets.safe_pickle import load_pickle_from
from implanting.datasets.splits import NAMED, read_class_lists
from implanting.errors import DataError
from implanting.runtime import open_file

FOLDER, ARCHIVE = "cifar-100-python", "cifar-100-python.tar.gz"
PARTS = ("train", "test", "meta")
LARGEST_PART = 512 * 2**20
"""Limit on the bytes of a part; the largest real one, train, has 155 MB."""
MEMBERS = 1000
"""Limit on the members of an archive; the real one has five."""
CHUNK = 1024
"""Images converted from planes to pixels per step; converting all at once would take twice the memory."""
LOOKED_FOR = f"{ARCHIVE}, or the folder {FOLDER} with the files {', '.join(PARTS)}"


def find(path: Path, options: Options) -> SplitReaders:
    """Find readers for an archive, for its unpacked folder, or for a folder that contains either."""
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
    """Read all images of some classes."""
    fine_names = _names_of_classes(source)
    if unknown := [label for label in classes if label not in fine_names]:
        raise DataError(
            f"{source} has no class '{unknown[0]}', which `splits` {options.splits} lists; it has {len(fine_names)} "
            f"classes from '{fine_names[0]}' to '{fine_names[-1]}', and {NAMED[0]} and {NAMED[1]} fit"
        )
    wanted = [fine_names.index(label) for label in classes]
    parts = [_read_part(source, part, wanted, len(fine_names)) for part in ("train", "test")]
    images, ids = (np.concatenate(halves) for halves in zip(*parts, strict=True))
    return set_of_arrays(name, images, ids, dict(enumerate(fine_names)), options)


def _names_of_classes(source: Path) -> list[str]:
    where = f"{source}: meta"
    stored = list_of(_load(source, "meta", "fine_label_names")[0], where, "fine_label_names")
    names = [name_of_class(name, where) for name in stored]
    if not names or len(set(names)) < len(names):
        raise DataError(
            f"{where} names {len(names)} classes, {len(set(names))} of them distinct; expected one name per class: get "
            "it again"
        )
    return names


def _is_cifar(place: Path) -> bool:
    if place.is_file():
        try:
            return tarfile.is_tarfile(place)
        except (EOFError, OSError, zlib.error):  # compressed, and cut off within its header: reading it says so
            return True
    return all((place / part).is_file() for part in PARTS)


def _read_part(
    source: Path, part: str, wanted: list[int], classes: int
) -> tuple[UInt8[np.ndarray, "image 32 32 3"], np.ndarray]:
    """Read the images of the wanted classes, and their class ids."""
    data, labels = _load(source, part, "data", "fine_labels")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (3 * 32 * 32,):
        raise DataError(f"{source}: {part} has data of {in_words(data)}; expected uint8 [image, 3072]: get it again")
    labels = np.array(_class_numbers(labels, len(data), classes, f"{source}: {part}"), dtype=np.int64)
    chosen = np.flatnonzero(np.isin(labels, wanted))
    images = np.empty((len(chosen), 32, 32, 3), np.uint8)
    for start in range(0, len(chosen), CHUNK):
        rows = slice(start, start + CHUNK)
        images[rows] = data[chosen[rows]].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return images, labels[chosen]


def _class_numbers(labels: Any, count: int, classes: int, where: str) -> list[int]:
    """Check the labels, and return the class number of each image."""
    found = list_of(labels, where, "fine_labels")
    if len(found) != count:
        raise DataError(f"{where} has {count} images and {len(found)} labels; expected one per image: get it again")
    for index, label in enumerate(found):
        if isinstance(label, bool) or not isinstance(label, int | np.integer) or not 0 <= label < classes:
            raise DataError(f"{where}: the label of image {index} is {label!r:.40}; expected 0 to {classes - 1}")
    return [int(label) for label in found]


def _load(source: Path, part: str, *keys: str) -> list[Any]:
    with _open_part(source, part) as (file, size):
        content = load_pickle_from(file, f"{source}: {part}", size)
    if not isinstance(content, dict) or not all(key in content for key in keys):
        raise DataError(f"{source}: {part} lacks {' or '.join(keys)}; expected the Python version of CIFAR-100")
    return [content[key] for key in keys]


def _member(source: Path, archive: tarfile.TarFile, name: str) -> tarfile.TarInfo:
    """Find a regular file in an archive by name; links, which could form a cycle, and oversized files are errors."""
    for number, member in enumerate(archive):
        if number >= MEMBERS:
            raise DataError(f"{source} has more than {MEMBERS} members; expected the Python version of CIFAR-100")
        if member.name != name:
            continue
        if not member.isreg():
            raise DataError(f"{source}: {name} is not a regular file; expected the Python version of CIFAR-100")
        if member.size > LARGEST_PART:
            raise DataError(f"{source}: {name} has {member.size} bytes; at most {LARGEST_PART} are read: get it again")
        return member
    raise DataError(f"{source} holds no {name}; expected the Python version of CIFAR-100")


@contextmanager
def _open_part(source: Path, part: str) -> Iterator[tuple[Any, int]]:
    """Open a part; yield the file and its size in bytes."""
    if source.is_dir():
        with open_file(source / part) as file:
            yield file, (source / part).stat().st_size
        return
    try:
        with open_file(source) as stream, tarfile.open(fileobj=stream) as archive:
            member = _member(source, archive, f"{FOLDER}/{part}")
            yield archive.extractfile(member), member.size
    except (tarfile.TarError, EOFError, OSError, zlib.error) as fault:
        raise DataError(f"{source} is damaged or truncated ({fault}): get it again") from fault
