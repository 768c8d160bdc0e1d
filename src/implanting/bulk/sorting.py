"""Copy or link images into one folder per class, with separate folders for no class and for doubtful answers."""

import filecmp
import os
import re
import shutil
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from implanting.errors import ConfigError
from implanting.runtime import check_outside, open_file, replacing

DOUBTFUL = "doubtful"
"""The folder for answers with a probability below the requested one, with one folder per class inside."""

NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]|^\.+|[. ]+$')
"""Characters that some file system does not allow in the name of a folder."""


class SortedImages:
    """A folder into which images are sorted; existing files are kept, and the same image is not copied twice."""

    def __init__(self, folder: Path, labels: Iterable[object], link: bool = False) -> None:
        self.folder, self.link = folder, link
        self.names: dict[str, str] = {}
        taken = {DOUBTFUL}
        for label in map(str, labels):
            plain = NOT_IN_NAMES.sub("_", label)
            free = (plain if number == 1 else f"{plain} ({number})" for number in count(1))
            self.names[label] = next(name for name in free if name.casefold() not in taken)
            taken.add(self.names[label].casefold())

    @classmethod
    def outside(cls, folder: Path, inputs: Iterable[str], labels: Iterable[object], link: bool) -> "SortedImages":
        """Raise an error for a folder inside the input folders: the next run would read the copies as more images."""
        check_outside(folder, inputs, "sort_into")
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"`sort_into` {folder} is a file: name a folder")
        there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise ConfigError(
                f"`sort_into` {folder} cannot be written: {there} is a file or read-only; name another folder"
            )
        return cls(folder, labels, link)

    def place(self, source: Path, label: object, doubtful: bool) -> Path:
        """Copy or link an image into the folder of its class, and return its new path."""
        try:
            return self._placed(source, label, doubtful)
        except (OSError, ConfigError) as error:  # a fault of the disk, or one that the writer of files has named
            reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
            raise ConfigError(
                f"`sort_into` {self.folder}: image {source} cannot be placed there ({reason}); what was sorted stays, "
                "and the same command continues"
            ) from error

    def _placed(self, source: Path, label: object, doubtful: bool) -> Path:
        folder = self.folder / DOUBTFUL if doubtful else self.folder
        folder /= self.names[str(label)]
        folder.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            name = source.name if number == 1 else f"{source.stem} ({number}){source.suffix}"
            place = folder / name
            if not place.exists():
                return self._put(source, place)
            if filecmp.cmp(source, place, shallow=False):
                return place
        raise AssertionError  # not reachable: the loop is endless

    def _put(self, source: Path, place: Path) -> Path:
        if self.link:
            place.unlink(missing_ok=True)  # a dangling link
            place.symlink_to(source.resolve())
            return place
        with open_file(source) as image, replacing(place) as file:
            shutil.copyfileobj(image, file)
        shutil.copystat(source, place)
        return place
