"""Checkpoints: one self-describing safetensors file with a JSON document in its header.

Loading needs no options and cannot run code.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from implanting.errors import CheckpointError
from implanting.runtime.documents import parse_json
from implanting.runtime.reading import open_file
from implanting.runtime.writing import write_atomically

FORMAT = 1
"""The newest format this code reads and the one it writes."""

KEY = "implanting"
"""The key of the JSON document in the header's metadata."""


def write_checkpoint(path: Path, kind: str, document: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write the tensors and the document, marked with format number and kind, in one atomic step."""
    text = json.dumps({"format": FORMAT, "kind": kind, **document})
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, save(plain, metadata={KEY: text}))


def prefixed(name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Prefix the names of tensors, to make them one part of a file."""
    return {f"{name}.{key}": value for key, value in tensors.items()}


def part(name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Select the tensors of one part of a file; the inverse of `prefixed`."""
    return {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}


def read_checkpoint(path: Path, kind: str, remedy: str = "check its name") -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the document and the tensors of a file of this kind; a `CheckpointError` explains what is wrong with it.

    `remedy` is the advice if there is no such file.
    """
    try:
        open_file(path).close()
    except FileNotFoundError:
        raise CheckpointError(f"no {kind} at {path}: there is no such file; {remedy}") from None
    except OSError as error:
        raise CheckpointError(f"no {kind} at {path}: {error.strerror}; {remedy}") from None
    try:
        with safe_open(path, framework="pt") as file:
            document = _read_document(path, kind, file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(
            f"{path} cannot be read as safetensors ({error}): it is truncated, damaged or of another kind; "
            "copy it again or train again"
        ) from error
    _check_finite(path, tensors)
    return document, tensors


def _check_finite(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise an error if a number is infinite or nan, as every result computed from it would be useless."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel():
            lowest, highest = torch.aminmax(tensor)  # one pass; nan propagates
            if not (lowest.isfinite() and highest.isfinite()):
                raise CheckpointError(f"{path} is damaged: {name} holds a number that is not finite; copy it again")


def kind_of(path: Path) -> str | None:
    """Return the kind that a file declares; None if it is not a file of this project, or missing."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            kind = parse_json((file.metadata() or {})[KEY])["kind"]
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError):
        return None
    return str(kind)


def _read_document(path: Path, kind: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    """Read the JSON document of a file's header; check that it is ours, of a known format and of the wanted kind."""
    try:
        document: dict[str, Any] = parse_json(metadata[KEY])
        found, found_kind = document["format"], document["kind"]
    except KeyError as error:
        raise CheckpointError(
            f"{path} is a safetensors file, but not one of implanting: its header names no format and kind"
        ) from error
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: its description cannot be read ({error}); copy it again") from error
    if type(found) is not int or not 1 <= found <= FORMAT:
        raise CheckpointError(f"{path} has format {found}; this version reads up to {FORMAT}: update implanting")
    if found_kind != kind:
        raise CheckpointError(f"{path} holds a {found_kind}; a {kind} is needed here")
    return document
