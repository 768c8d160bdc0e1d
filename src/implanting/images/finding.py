"""Find image files from the arguments of a command: files, folders, patterns and standard input."""

import fnmatch
import glob
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from implanting.errors import DataError
from implanting.images.decoding import IMAGE_EXTENSIONS
from implanting.images.folders import Identity, files_in, identity, is_image

STANDARD_INPUT = "-"

ANY_DEPTH = "**"
"""The part of a pattern that matches any number of folders."""


def find_images(inputs: Sequence[str | Path], skip_bad: bool = False) -> list[Path]:
    """Find the image files that the inputs name, each once, in the order of the inputs.

    A file is accepted whatever its extension. Folders (searched recursively, in sorted order) and patterns such as
    `photos/**/*.jpg` yield only files with an image's extension. `-` reads paths from standard input, separated by NUL
    if it contains any, otherwise one per line. A missing file is an error or, with `skip_bad`, reported when it is
    decoded.
    """
    paths = list(dict.fromkeys(path for name in inputs for path in _expand(name, skip_bad)))
    if not paths:
        named = ", ".join(map(str, inputs)) or "nothing was named"
        raise DataError(f"no image found ({named}): name image files, folders or patterns ({_extensions()})")
    return paths


def _expand(name: str | Path, skip_bad: bool) -> Iterator[Path]:
    if name == "":  # as a path, it would be the current folder
        raise DataError("an empty name is no image: name image files, folders or patterns, or . for the current folder")
    if str(name) == STANDARD_INPUT:
        for line in _standard_input():
            yield from _expand_path(Path(line), skip_bad)
    elif isinstance(name, str) and glob.has_magic(name) and not Path(name).exists():
        yield from _expand_pattern(name)
    else:
        yield from _expand_path(Path(name), skip_bad)


def _expand_path(path: Path, skip_bad: bool) -> Iterator[Path]:
    if path.is_dir():
        yield from _images_in(path, str(path))
    elif path.exists() or skip_bad:
        yield path
    else:
        raise DataError(f"{path} does not exist: check the path")


def _expand_pattern(pattern: str) -> Iterator[Path]:
    path = Path(pattern)
    found = sorted(set(_matches(Path(path.anchor), path.relative_to(path.anchor).parts)))
    files = [file for path in found for file in (files_in(path) if path.is_dir() else [path])]
    yield from _checked(filter(is_image, files), f"the pattern {pattern}", "matches")


def _matches(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Match a pattern like Python's `glob`, but terminate when links form a cycle."""
    if not parts:
        yield folder
        return
    part, *rest = parts
    if part == ANY_DEPTH:
        for within in _folders_in(folder, set()):
            yield from _matches(within, rest)
    elif not glob.has_magic(part):
        if os.path.lexists(folder / part):
            yield from _matches(folder / part, rest)
    elif folder.is_dir():
        names = (entry.name for entry in folder.iterdir())
        for name in fnmatch.filter(names, part):
            if part.startswith(".") or not name.startswith("."):
                yield from _matches(folder / name, rest)


def _folders_in(folder: Path, seen: set[Identity]) -> Iterator[Path]:
    """Yield a folder and all folders in it, each once, except hidden ones."""
    if not folder.is_dir() or identity(folder) in seen:
        return
    seen.add(identity(folder))
    yield folder
    for entry in folder.iterdir():
        if not entry.name.startswith("."):
            yield from _folders_in(entry, seen)


def _images_in(folder: Path, name: str) -> Iterator[Path]:
    yield from _checked(filter(is_image, files_in(folder)), name, "holds")


def _checked(images: Iterable[Path], name: str, verb: str) -> list[Path]:
    if images := list(images):
        return images
    raise DataError(f"{name} {verb} no image; expected files with an image's extension ({_extensions()})")


def _standard_input() -> list[str]:
    text = os.fsdecode(sys.stdin.buffer.read())
    lines = text.split("\0") if "\0" in text else text.replace("\r\n", "\n").split("\n")
    return [line for line in lines if line.strip()]


def _extensions() -> str:
    return ", ".join(sorted(IMAGE_EXTENSIONS))


def folders_in(inputs: Sequence[str | Path]) -> list[Path]:
    """Return those of the inputs that are folders."""
    return [Path(name) for name in inputs if str(name) != STANDARD_INPUT and Path(name).is_dir()]
