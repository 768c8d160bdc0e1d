"""The record of how a finished shard was made, so that a command which would make other rows does not skip it.

The record is a hidden file next to the shard, since a CSV file has no place for it. It is one hash of the shard's own
bytes and of all that decided them: a record that was lost, or that belongs to other bytes, is none, and the shard is
made again.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from implanting.runtime import holds, open_file, write_atomically

MARK = b"made by implanting predict "
"""The beginning of every record."""


def content_digest(path: Path) -> str | None:
    """Return the SHA-256 of a file; None if it cannot be read, which whoever needs its content reports."""
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def write_record(shard: Path, made_by: Mapping[str, Any]) -> None:
    """Record what decided the rows of a shard that has just been written; a file that is no record stays."""
    place = _place(shard)
    if not place.exists() or holds(MARK)(place):
        write_atomically(place, _record(shard, made_by))


def is_made_by(shard: Path, made_by: Mapping[str, Any]) -> bool:
    """Whether a shard is recorded as made in this way, and has not been changed since."""
    try:
        with open_file(_place(shard)) as file:
            return file.read(len(MARK) + 100) == _record(shard, made_by)
    except OSError:
        return False


def _place(shard: Path) -> Path:
    return shard.with_name(f".{shard.name}.made")


def _record(shard: Path, made_by: Mapping[str, Any]) -> bytes:
    told = json.dumps([made_by, content_digest(shard)], sort_keys=True).encode()
    return MARK + hashlib.sha256(told).hexdigest().encode() + b"\n"
