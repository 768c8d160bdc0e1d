"""Folders of images with one sub-folder per class, inspected for problems that would harm a classifier.

The choices made: folders inside a class folder belong to the class, and so do the targets of links, each counted once.
Hidden files and folders (and macOS's `__MACOSX`) are ignored. Files without an image's extension are skipped and
counted.

Copies of one image in two classes are found by comparing the bytes of files, not pixels. Such copies usually arise from
copying or linking a file into two folders; only files of equal length need to be read, whereas comparing pixels would
decode every image twice.
"""

import hashlib
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from implanting.errors import DataError, DataWarning
from implanting.images.decoding import IMAGE_EXTENSIONS, ImageSource
from implanting.images.many import Failure, decode_batches
from implanting.runtime import Progress, silent

PASSED_OVER = "__MACOSX"
"""The folder that macOS adds to archives, with metadata of every file."""

VIDEO = frozenset({".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpg", ".mts", ".webm", ".wmv"})

NAMED = 5
"""The largest number of files that a remark names; the rest are counted."""

Identity = tuple[int, int]
"""Device and inode number of a folder."""

CHECK_SIZE, CHECK_BATCH = 8, 64
"""Size and batch size of the trial decoding, which only checks that images decode."""


def list_class_folders(folder: str | Path) -> tuple[dict[str, list[Path]], int]:
    """List the images of each class, sorted, and count the other files, which are skipped."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is {'a file' if folder.exists() else 'missing'}; expected a folder of class folders")
    _refuse_dots(folder)
    classes, skipped = {}, 0
    for class_folder in subfolders(folder):
        files = list(files_in(class_folder, {identity(folder)}))
        images = [file for file in files if is_image(file)]
        if not images:
            raise DataError(
                f"class folder {class_folder} holds no image ({len(files)} other files): "
                f"add images ({', '.join(sorted(IMAGE_EXTENSIONS))}) or remove the folder"
            )
        classes[class_folder.name] = images
        skipped += len(files) - len(images)
    if not classes:
        raise DataError(f"{folder} has no sub-folders; expected one sub-folder per class, with its images inside")
    return classes, skipped


def is_image(path: Path) -> bool:
    """Whether a file's name has an image's extension."""
    return path.suffix.lower() in IMAGE_EXTENSIONS


def holds_images(folder: Path) -> bool:
    """Whether a folder contains images, at any depth."""
    return any(is_image(file) for file in files_in(folder))


def subfolders(folder: Path) -> list[Path]:
    """List the folders in a folder, sorted, except hidden ones."""
    return [entry for entry in _entries(folder) if entry.is_dir()]


def files_in(folder: Path, seen: set[Identity] | None = None) -> Iterator[Path]:
    """Yield the files in a folder recursively, sorted, except hidden ones; folders in `seen` are not entered again."""
    seen = set() if seen is None else seen
    seen.add(identity(folder))
    for entry in _entries(folder):
        if not entry.is_dir():
            yield entry
        elif identity(entry) not in seen:
            yield from files_in(entry, seen)


def identity(folder: Path) -> Identity:
    """Identify a folder, whatever path leads to it."""
    found = folder.stat()
    return found.st_dev, found.st_ino


def _refuse_dots(folder: Path) -> None:
    """Raise an error for a folder such as `...`, which looks like a class but would be ignored as hidden."""
    for entry in folder.iterdir():
        if not entry.name.strip(".") and entry.is_dir():
            raise DataError(
                f"class folder {entry} has a name of dots only, and names that begin with a dot are ignored as hidden: "
                "give it a name with letters"
            )


def _entries(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith(".") and entry.name != PASSED_OVER)


@dataclass(frozen=True)
class LabelledImages:
    """The images of a folder, the class of each, and the problems found."""

    paths: list[Path]
    labels: list[str]
    skipped: Mapping[str, int]
    """The number of files that are not images, by their extension."""
    loose: list[Path]
    """Images in no class folder, which are left out."""
    bad: list[Failure]
    """Images that failed to decode and were left out."""
    copies: list[tuple[Path, ...]]
    """Groups of files with equal content in two or more classes."""

    def remarks(self) -> list[str]:
        """The problems found, one per line."""
        remarks = []
        if self.skipped:
            remarks.append(remark_on_others(self.skipped))
        if self.loose:
            found = f"{_count(len(self.loose), 'image')}, such as {self.loose[0].name},"
            remarks.append(f"left out {found} in no class folder: move each into the folder of its class")
        if self.bad:
            remarks.append(f"left out: {_some([failure.reason for failure in self.bad])}")
        if self.copies:
            pairs = [" = ".join(map(str, group)) for group in self.copies]
            remarks.append(f"the same image is in two classes, which no classifier can learn: {_some(pairs)}")
        return remarks


def inspect_folder(path: str | Path, *, skip_bad: bool = False, progress: Progress = silent) -> LabelledImages:
    """List the images of a folder with one sub-folder per class, and inspect them for problems.

    With `skip_bad`, all images are decoded once to find bad ones. Without it, a bad image raises an error when used.
    """
    classes, _ = list_class_folders(path)
    bad = undecodable([file for files in classes.values() for file in files], progress) if skip_bad else []
    left_out = {failure.source for failure in bad}
    kept = {name: [file for file in files if file not in left_out] for name, files in classes.items()}
    if empty := [name for name, files in kept.items() if not files]:
        images = classes[empty[0]]
        own = next(failure for failure in bad if failure.source in images)
        raise DataError(
            f"none of the {_count(len(images), 'image')} of class '{empty[0]}' decodes, such as: {own.reason}"
        )
    paths = [file for files in kept.values() for file in files]
    labels = [name for name, files in kept.items() for _ in files]
    loose = [entry for entry in _entries(Path(path)) if entry.is_file() and is_image(entry)]
    return LabelledImages(paths, labels, other_files([path]), loose, bad, _copies_between(kept))


def other_files(folders: Sequence[str | Path]) -> Counter[str]:
    """Count the files in folders that are not images, by extension, the most common first."""
    files = (file for folder in folders for file in files_in(Path(folder)))
    return Counter(dict(Counter(file.suffix.lower() for file in files if not is_image(file)).most_common()))


def remark_on_others(others: Mapping[str, int]) -> str:
    """Describe files that are not images and were skipped."""
    counts = ", ".join(f"{number} {ending or 'without an ending'}" for ending, number in others.items())
    video = "; videos are not read: save their frames as images first" if VIDEO & others.keys() else ""
    return f"skipped {_count(sum(others.values()), 'file')} without an image's extension ({counts}){video}"


def read_folder(path: str | Path, *, skip_bad: bool = False) -> tuple[list[Path], list[str]]:
    """List the images of a folder with one sub-folder per class, and the class of each.

    Files without an image's extension are skipped; with `skip_bad`, so are images that fail to decode. A `DataWarning`
    reports both, and copies of one image in two classes; `inspect_folder` returns them as lists.
    """
    found = inspect_folder(path, skip_bad=skip_bad)
    for remark in found.remarks():
        warnings.warn(f"{path}: {remark}", DataWarning, stacklevel=2)
    return found.paths, found.labels


def undecodable(sources: Sequence[ImageSource], progress: Progress = silent) -> list[Failure]:
    """List the images that fail to decode, with the reasons."""
    batches = decode_batches(
        sources, CHECK_SIZE, CHECK_BATCH, skip_bad=True, progress=progress, doing="checking images"
    )
    return [failure for batch in batches for failure in batch.failures]


def _copies_between(classes: Mapping[str, Sequence[Path]]) -> list[tuple[Path, ...]]:
    """Find groups of files with the same bytes in two or more classes."""
    homes = {file: name for name, files in classes.items() for file in files if file.is_file()}
    groups = [
        group
        for same_length in _grouped((file.stat().st_size, file) for file in homes)
        if _cross(same_length, homes)
        for group in _grouped((_digest(file), file) for file in same_length)
    ]
    return [tuple(group) for group in groups if _cross(group, homes)]


def _cross(files: Sequence[Path], homes: Mapping[Path, str]) -> bool:
    return len({homes[file] for file in files}) > 1


def _grouped(pairs: Iterable[tuple[object, Path]]) -> list[list[Path]]:
    groups: dict[object, list[Path]] = defaultdict(list)
    for key, file in pairs:
        groups[key].append(file)
    return list(groups.values())


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _some(lines: Sequence[str]) -> str:
    further = f"; and {len(lines) - NAMED} more" * (len(lines) > NAMED)
    return "; ".join(lines[:NAMED]) + further
