"""The files of photos: one picture and one thumbnail each, under names that nobody can guess or choose."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from implanting.errors import ConfigError
from implanting.images import decode
from implanting.runtime import write_atomically
from implanting.serve.pictures import Picture, thumbnail


class PhotoFiles:
    """The pictures and thumbnails of one data folder."""

    def __init__(self, folder: Path) -> None:
        self.pictures, self.thumbnails = folder / "photos", folder / "thumbnails"
        for path in (folder, self.pictures, self.thumbnails):
            _make_folder(path)

    def picture(self, name: str) -> Path:
        """The path of a picture."""
        return self.pictures / name[:2] / name

    def thumbnail(self, name: str) -> Path:
        """The path of the thumbnail of a picture."""
        return self.thumbnails / name[:2] / f"{name.partition('.')[0]}.jpg"

    def thumbnail_content(self, name: str) -> bytes:
        """The thumbnail of a picture; it is made again where it was lost."""
        path = self.thumbnail(name)
        try:
            if content := path.read_bytes():
                return content
        except FileNotFoundError:
            pass
        content = thumbnail(decode(self.picture(name)))
        _make_folder(path.parent)
        write_atomically(path, content)
        return content

    def write(self, picture: Picture) -> str:
        """Write a picture and its thumbnail, and return the name under which they are kept."""
        name = f"{secrets.token_hex(16)}{picture.suffix}"
        for path, content in {self.thumbnail(name): picture.thumbnail, self.picture(name): picture.content}.items():
            _make_folder(path.parent)
            try:
                write_atomically(path, content)
            except BaseException:
                self.remove(name)
                raise
        return name

    def synchronise(self, names: Iterable[str]) -> None:
        """Bring the names of new pictures to disk, where the system has folders that can be opened."""
        for folder in {self.picture(name).parent for name in names} if os.name == "posix" else ():
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def remove(self, name: str) -> None:
        """Delete a picture and its thumbnail."""
        self.picture(name).unlink(missing_ok=True)
        self.thumbnail(name).unlink(missing_ok=True)

    def sweep(self, known: set[str]) -> None:
        """Delete the pictures that never got their record, because the process was killed."""
        for path in self.pictures.glob("*/*"):
            if path.name not in known:
                self.remove(path.name)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the folder {path} cannot be created ({error.strerror}): choose another with `data`"
        ) from error
