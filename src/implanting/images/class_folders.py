"""Folders of images with one sub-folder a class."""

from collections.abc import Iterator
from pathlib import Path

from implanting.errors import DataError
from implanting.images.decoding import IMAGE_EXTENSIONS


def read_folder(path: str | Path) -> tuple[list[Path], list[str]]:
    """The images of a folder with one sub-folder a class, and the class of each."""
    classes, _ = list_class_folders(path)
    paths = [file for files in classes.values() for file in files]
    labels = [name for name, files in classes.items() for _ in files]
    return paths, labels


def list_class_folders(folder: str | Path) -> tuple[dict[str, list[Path]], int]:
    """The images of each class, sorted, and how many other files were skipped; hidden files do not count.

    Images in folders inside a class folder belong to the class.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(
            f"{folder} is {'a file' if folder.exists() else 'missing'}; needed is a folder of class folders"
        )
    classes, skipped = {}, 0
    for class_folder in subfolders(folder):
        files = list(_files(class_folder))
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
    return any(is_image(file) for file in _files(folder))


def subfolders(folder: Path) -> list[Path]:
    """Sorted, without hidden ones."""
    return [entry for entry in _entries(folder) if entry.is_dir()]


def _entries(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _files(folder: Path) -> Iterator[Path]:
    for entry in _entries(folder):
        if entry.is_dir():
            yield from _files(entry)
        else:
            yield entry
