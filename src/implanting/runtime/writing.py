"""Write files atomically, and never over a file that somebody may want to keep.

Every file that this project writes goes through this module. A reader sees either the old file or the new one, two
concurrent writers leave the file of one of them, and a failed write leaves the old file. The temporary file has an
unpredictable name and is always newly created, so that nothing can be planted in its place.
"""

import io
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path
from typing import Any

from implanting.errors import ConfigError
from implanting.runtime.reading import open_file

NEW = os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
"""Flags for opening a file that must not exist yet, not even as a link."""

MARK = "drawn by implanting"
"""The text in the metadata of every picture we write."""

PICTURES: dict[str, dict[str, Any]] = {
    "png": {"metadata": {"Software": MARK}},
    "pdf": {"metadata": {"Creator": MARK}},
    "svg": {"metadata": {"Creator": MARK}},
    "jpg": {"pil_kwargs": {"comment": MARK.encode()}},
    "webp": {"pil_kwargs": {"xmp": MARK.encode()}},
}
"""Formats of pictures by extension, and matplotlib's options that add the mark."""

LOOKED_AT = 2**16
"""Number of bytes at either end of a file that are searched for a mark."""

FORGOTTEN = 3600.0
"""Seconds without growth after which a temporary file counts as left behind by a killed process."""


def check_destination(
    path: Path,
    setting: str = "out",
    suffix: str | tuple[str, ...] = ".safetensors",
    *,
    replaces: Callable[[Path], bool] | None = None,
    inputs: Iterable[Path | None] = (),
    overwrite: bool = False,
) -> None:
    """Raise an error, before any slow work, if the file cannot be written at `path`; `setting` names it in messages.

    Without `overwrite`, an existing file may be replaced only if `replaces` says that it is of the same kind, and if it
    is not one of the `inputs`.
    """
    suffixes = (suffix,) if isinstance(suffix, str) else suffix
    if path.suffix.lower() not in suffixes:
        raise ConfigError(f"`{setting}` {path}: the name of such a file ends in {' or '.join(suffixes)}")
    if not path.parent.is_dir():
        raise ConfigError(f"`{setting}` {path} cannot be written: there is no folder {path.parent}; create it first")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise ConfigError(
            f"`{setting}` {path} cannot be written: it is a folder, or its folder is read-only; choose another"
        )
    if overwrite or not os.path.lexists(path):
        return
    if any(source is not None and source.exists() and path.exists() and source.samefile(path) for source in inputs):
        raise ConfigError(f"`{setting}` {path} is what is read from: choose another, or replace it with `overwrite`")
    if replaces is not None and not replaces(path):
        raise ConfigError(
            f"`{setting}` {path} exists already, and is not of the kind that is written here: choose another, or "
            "replace it with `overwrite`"
        )


def check_outside(folder: Path, inputs: Iterable[str], setting: str) -> None:
    """Raise an error for a folder inside the input folders: the next run would read what was written as more input."""
    for name in inputs:
        if Path(name).is_dir() and folder.resolve().is_relative_to(Path(name).resolve()):
            raise ConfigError(f"`{setting}` {folder} is within {name}, which is read: choose a folder outside it")


def figure_bytes(figure: Any, ending: str, dpi: int) -> bytes:
    """Return the file of a matplotlib figure, with the mark that identifies it as ours."""
    file = io.BytesIO()
    figure.savefig(file, format=ending, dpi=dpi, **PICTURES[ending])
    return file.getvalue()


def write_figure(figure: Any, path: Path, dpi: int) -> None:
    """Write a figure in the format of the path's extension."""
    write_atomically(path, figure_bytes(figure, path.suffix.lower().removeprefix(".").replace("jpeg", "jpg"), dpi))


def holds(mark: bytes) -> Callable[[Path], bool]:
    """Return a check for these bytes near the beginning or the end of a file, as in files this project wrote."""

    def has_mark(path: Path) -> bool:
        try:
            with open_file(path) as file:
                if mark in file.read(LOOKED_AT):
                    return True
                file.seek(-min(LOOKED_AT, file.seek(0, os.SEEK_END)), os.SEEK_END)
                return mark in file.read()
        except OSError:  # missing or not readable
            return False

    return has_mark


is_our_picture = holds(MARK.encode())
"""Whether a file is a picture that this project drew."""


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content atomically, or leave it untouched and raise an error."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BufferedWriter]:
    """Open a new file that replaces `path` if the `with` block succeeds, and is removed if it fails."""
    partial = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.partial")
    try:
        with open_new(partial) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror or error}): free some space, or choose another place"
        ) from error
    finally:  # also after Ctrl-C
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        _remove_forgotten(path)


def append_to(path: Path, line: bytes) -> None:
    """Append a line to a file of ours in one write; a link in its place is not followed."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        with open(descriptor, "ab", buffering=0) as file:  # noqa: PTH123 (a descriptor)
            file.write(line)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror or error}): free some space, or choose another place"
        ) from error


def open_new(path: Path) -> BufferedWriter:
    """Create a file, which must not exist yet, and open it for writing."""
    return open(os.open(path, os.O_WRONLY | NEW, 0o666), "wb")  # noqa: PTH123 (a descriptor; the caller closes it)


def _remove_forgotten(path: Path) -> None:
    """Remove temporary files left by writers of the same file that were killed long ago."""
    with suppress(OSError):
        for left in path.parent.glob(f".{_literal(path.name[:100])}.*.partial"):
            if time.time() - left.lstat().st_mtime > FORGOTTEN:
                left.unlink(missing_ok=True)


def _literal(name: str) -> str:
    """Escape a name, as a pattern that matches only this name."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
