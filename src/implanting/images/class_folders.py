"""Folders of images with one sub-folder a class.

The choices made: folders inside a class folder belong to the class, and so does what a link leads to; hidden files
and folders (and macOS's `__MACOSX`) are passed over; files without an image's extension are skipped and counted.
"""

from collections.abc import Iterator
from pathlib import Path

from implanting.errors import DataError
from implanting.images.decoding import IMAGE_EXTENSIONS

PASSED_OVER = "__MACOSX"
"""What macOS adds to archives: a shadow of every file."""


def list_class_folders(folder: str | Path) -> tuple[dict[str, list[Path]], int]:
    """The images of each class, sorted, and how many other files were skipped."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(
            f"{folder} is {'a file' if folder.exists() else 'missing'}; needed is a folder of class folders"
        )
    classes, skipped = {}, 0
    for class_folder in subfolders(folder):
        files = list(files_in(class_folder, frozenset({folder.resolve()})))
        images = [file for file in files if is_image(file)]
        if not images:
            raise DataError(
                f"class folder {class_folder} holds no image ({len(files)} other files): "
                f"add images ({', '.join(sorted(IMAGE_EXTENSIONS))}) or remove the folder"
            )
        classes[class_folder.name] = images
        skipped += len(files) - len(images)
    if not classes:
        raise DataError(f"{folder} has no sub-folders; needed is one sub-folder a class, with its images inside")
    return classes, skipped


def is_image(path: Path) -> bool:
    """By its name."""
    return path.suffix.lower() in IMAGE_EXTENSIONS


def holds_images(folder: Path) -> bool:
    """At any depth."""
    return any(is_image(file) for file in files_in(folder))


def subfolders(folder: Path) -> list[Path]:
    """Sorted, without hidden ones."""
    return [entry for entry in _entries(folder) if entry.is_dir()]


def files_in(folder: Path, within: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Sorted, at any depth, without hidden ones; a link to one of the folders it stands `within` ends there."""
    within |= {folder.resolve()}
    for entry in _entries(folder):
        if not entry.is_dir():
            yield entry
        elif entry.resolve() not in within:
            yield from files_in(entry, within)


def _entries(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith(".") and entry.name != PASSED_OVER)
