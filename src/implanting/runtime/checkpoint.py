"""One self-describing file: safetensors with a JSON document in its header.

Loading needs no flags and cannot run code. Writing is atomic: a reader sees the old file or the new one, and an
interrupted write leaves the old file as it was.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from implanting.errors import CheckpointError, ConfigError

FORMAT = 1
"""The newest format this code reads and the one it writes."""

KEY = "implanting"
"""Where the JSON document stands in the header's metadata."""


def write_checkpoint(path: Path, kind: str, document: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write the tensors and the document, marked with format number and kind, in one atomic step."""
    text = json.dumps({"format": FORMAT, "kind": kind, **document})
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, save(plain, metadata={KEY: text}))


def check_destination(path: Path, setting: str = "out", suffix: str = ".safetensors") -> None:
    """Refuse, before anything slow is done, a place where no such file can be written; `setting` names it."""
    if path.suffix != suffix:
        raise ConfigError(f"`{setting}` {path}: the name of such a file ends in {suffix}")
    if not path.parent.is_dir():
        raise ConfigError(f"`{setting}` {path}: there is no folder {path.parent}; create it first")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise ConfigError(
            f"`{setting}` {path} cannot be written: it is a folder, or its folder is read-only; choose another"
        )


def prefixed(name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as one part of a file."""
    return {f"{name}.{key}": value for key, value in tensors.items()}


def part(name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `prefixed`: other parts are left out."""
    return {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content at once, or leave it untouched and raise.

    The name of the file in between is fixed, so what a killed process leaves behind is replaced by the next write.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CheckpointError(f"cannot write {path}: {error.strerror}; free some space or write elsewhere") from error


def read_checkpoint(path: Path, kind: str, remedy: str = "check its name") -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The document and the tensors of a file of this kind, or a `CheckpointError` that says what is wrong with it.

    `remedy` is what to do where there is no such file.
    """
    if not path.is_file():
        raise CheckpointError(f"no {kind} at {path}: there is no such file; {remedy}")
    try:
        with safe_open(path, framework="pt") as file:
            document = _read_document(path, kind, file.metadata() or {})
            return document, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} cannot be read as safetensors ({error}): it is truncated, damaged or of another kind; "
            "copy it anew or train again"
        ) from error


def kind_of(path: Path) -> str | None:
    """What the file at a path says it is; None where it is no file of ours, or none at all."""
    try:
        with safe_open(path, framework="pt") as file:
            kind = json.loads((file.metadata() or {})[KEY])["kind"]
    except (SafetensorError, OSError, KeyError, TypeError, ValueError):
        return None
    return str(kind)


def _read_document(path: Path, kind: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    """The JSON document of a file's header, checked for being ours, of a known format and of the kind wanted."""
    try:
        document: dict[str, Any] = json.loads(metadata[KEY])
        found, found_kind = document["format"], document["kind"]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} is a safetensors file, but not one of implanting: its header names no format and kind"
        ) from error
    if not isinstance(found, int) or found > FORMAT:
        raise CheckpointError(f"{path} has format {found}; this version reads up to {FORMAT}: update implanting")
    if found_kind != kind:
        raise CheckpointError(f"{path} holds a {found_kind}; a {kind} is needed here")
    return document
