"""Results that are written as soon as they are computed, so that an interrupted run can continue.

The name of a result's file is a hash of everything that the result depends on: the base network, the images, the tasks,
the way to test and the source of this code. So no stale result can be used, and another table finds what this one
computed.
"""

import dataclasses
import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from implanting.config import TaskConfig, config_from_dict
from implanting.errors import ConfigError
from implanting.fewshot import Result
from implanting.runtime import checked, from_rank_zero, open_file, parse_json, rank, write_atomically

PACKAGE = Path(__file__).parents[1]
"""The folder with all our source files."""


@cache
def fingerprint_of_source(package: Path) -> str:
    """A hash of the names and the contents of a package's source files; any change to them changes it."""
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(package).as_posix()} {len(content)} ".encode() + content)
    return digest.hexdigest()


ENCRYPTED = 1
"""The flag of an archive's member that needs a password."""


class KeptResults:
    """A folder of results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file_of(self, **depends_on: Any) -> Path:
        """The file of the result that depends on all of this."""
        text = json.dumps({"code": fingerprint_of_source(PACKAGE), **depends_on}, sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.npz"

    def read(self, file: Path) -> Result | None:
        """The result in a file, or None if there is none; only the host of rank 0 needs the file."""
        return from_rank_zero(_read_result(file) if rank() == 0 and file.exists() else None)

    def write(self, file: Path, result: Result) -> None:
        """Write a result; only rank 0 does."""
        if rank() != 0:
            return
        self.folder.mkdir(exist_ok=True)
        described = {"method": result.method, "images": result.images, "config": dataclasses.asdict(result.config)}
        content = io.BytesIO()
        np.savez(content, described=json.dumps(described), per_task=result.per_task, confusion=result.confusion)
        write_atomically(file, content.getvalue())


@dataclass(frozen=True)
class Described:
    """The description of a result in its file, in addition to the numbers."""

    method: str
    images: str
    config: dict[str, Any]


def _read_result(file: Path) -> Result | None:
    """The result in a file; None if it is damaged, so that it is computed again."""
    try:
        with open_file(file) as opened, zipfile.ZipFile(opened) as archive:
            members = archive.infolist()
            as_written = all(
                member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & ENCRYPTED for member in members
            )
            if not as_written or sum(member.file_size for member in members) > file.stat().st_size:
                return None
        with open_file(file) as opened, np.load(opened, allow_pickle=False) as content:
            described = checked(parse_json(str(content["described"])), Described)
            per_task, confusion = content["per_task"], content["confusion"]
        config = config_from_dict(TaskConfig, described.config)
        _check(per_task, confusion, config)
        return Result(described.method, config, described.images, per_task, confusion)
    except (ValueError, KeyError, TypeError, EOFError, OSError, NotImplementedError, zipfile.BadZipFile, ConfigError):
        return None


def _check(per_task: np.ndarray, confusion: np.ndarray, config: TaskConfig) -> None:
    """Raise an error unless these are accuracies of this number of tasks, and counts of answers."""
    if per_task.shape != (config.tasks,) or per_task.dtype.kind != "f" or not ((per_task >= 0) & (per_task <= 1)).all():
        raise ValueError("no accuracies")
    if confusion.ndim != 2 or confusion.dtype.kind not in "iu" or (confusion < 0).any():
        raise ValueError("no counts")
