"""A folder of activations, with a description of the base, the images, the layers and the precision they belong to.

It is refused if any of these differ, or if its arrays do not have the shapes that the base would give.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta

from implanting.base import BaseNetwork
from implanting.datasets import ImageSet
from implanting.errors import DataError
from implanting.networks import Sizes
from implanting.runtime import Shape, checked, open_file, open_files, parse_json, write_atomically

DESCRIPTION = "activations.json"
"""The file with the description. It is written last, so a folder without it is not a complete cache."""

CHUNK = 64
"""Images whose activations are looked at together."""

OTHER = {
    "base": "another base network",
    "images": "other images, by their split or their number of views",
    "tail": "other implanted layers",
    "dtype": "another precision",
}
"""Reasons for which a cache is refused, by the part of its identity that differs."""


def _identity_of(base: BaseNetwork, image_set: ImageSet, dtype: np.dtype) -> dict[str, str]:
    return {
        "base": base.fingerprint,
        "images": image_set.fingerprint,
        "tail": hashlib.sha256(repr(base.tail).encode()).hexdigest(),
        "dtype": dtype.name,
    }


def _words_for(image_set: ImageSet) -> str:
    return f"{image_set.name} of {len(image_set)} images, views counted"


def describe(
    cache: Path, base: BaseNetwork, image_set: ImageSet, dtype: np.dtype, sizes: Sizes, arrays: Sequence[np.ndarray]
) -> None:
    """Write the description, which completes the cache."""
    identity = _identity_of(base, image_set, dtype)
    described = {**identity, "of": _words_for(image_set), "sizes": sizes, "arrays": len(arrays)}
    write_atomically(cache / DESCRIPTION, json.dumps(described).encode())


def read_cache(cache: Path, base: BaseNetwork, image_set: ImageSet, dtype: np.dtype) -> tuple[list[np.ndarray], Sizes]:
    """The arrays of a cache and the sizes of its maps; refused unless it belongs to all of these."""
    identity = _identity_of(base, image_set, dtype)
    with _damage_reported(cache), open_file(cache / DESCRIPTION) as file:
        found = checked(parse_json(file.read()), Described)
    for name, value in identity.items():
        if getattr(found, name) != value:
            there, here = getattr(found, name)[:12], value[:12]
            if name == "images":
                there, here = found.of or there, _words_for(image_set)
            raise DataError(
                f"the cache {cache} is of {OTHER[name]} ({there}; here {here}): name another folder or remove this one"
            )
    with _damage_reported(cache):  # copy-on-write: the folder may be read-only, and it never changes
        shapes = _shapes_for(base, image_set, found.sizes)
        if found.arrays != len(shapes):
            raise ValueError(f"{found.arrays} arrays; expected {len(shapes)}")
        arrays = open_files(cache, shapes, dtype, "c")
        _check_finite(arrays)
    return arrays, found.sizes


@dataclass(frozen=True)
class Described:
    """The description that a cache has of itself."""

    base: str
    images: str
    tail: str
    dtype: str
    sizes: tuple[tuple[Annotated[int, Meta(ge=1)], Annotated[int, Meta(ge=1)]], ...]
    """Rows and columns of each map."""
    arrays: int
    of: str = ""
    """The images in words."""


@contextmanager
def _damage_reported(cache: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError, EOFError) as error:
        raise DataError(
            f"the cache {cache} is damaged ({error!r}): remove it, and it will be computed again"
        ) from error


def _shapes_for(base: BaseNetwork, image_set: ImageSet, sizes: Sizes) -> list[Shape]:
    """The shape of each array, from the description of the network alone: nothing is computed."""
    channels = {layer.reads: layer.channels for layer in base.tail.layers} if base.tail else {}
    phi = (math.prod(base.map_size(*image_set.images.shape[1:3])), base.network.dim)
    maps = [(math.prod(size), channels[number]) for number, size in enumerate(sizes)]
    return [(len(image_set), *part) for part in (*maps, phi)]


def _check_finite(arrays: Sequence[np.ndarray]) -> None:
    for number, array in enumerate(arrays):
        if not all(np.isfinite(array[start : start + CHUNK]).all() for start in range(0, len(array), CHUNK)):
            raise ValueError(f"array {number} holds a number that is not finite")
