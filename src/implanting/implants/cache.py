"""A folder of activations, with a description of the base, the images, the layers and the precision they belong to.

It is refused if any of these differ, or if its arrays do not have the shapes that the base would give.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from implanting.base import BaseNetwork
from implanting.datasets import ImageSet
from implanting.errors import DataError
from implanting.networks import Sizes
from implanting.runtime import Shape, open_files, write_atomically

DESCRIPTION = "activations.json"
"""The file with the description. It is written last, so a folder without it is not a complete cache."""

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
    with _damage_reported(cache):
        found = json.loads((cache / DESCRIPTION).read_text())
        stated = {name: str(found[name]) for name in identity}
        sizes, number = tuple((int(rows), int(columns)) for rows, columns in found["sizes"]), int(found["arrays"])
    for name, value in identity.items():
        if stated[name] != value:
            there, here = stated[name][:12], value[:12]
            if name == "images":
                there, here = found.get("of", there), _words_for(image_set)
            raise DataError(
                f"the cache {cache} is of {OTHER[name]} ({there}; here {here}): name another folder or remove this one"
            )
    with _damage_reported(cache):  # copy-on-write: the folder may be read-only, and it never changes
        arrays = open_files(cache, number, "c")
        _check_arrays(arrays, _shapes_for(base, image_set, sizes), dtype)
    return arrays, sizes


@contextmanager
def _damage_reported(cache: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(
            f"the cache {cache} is damaged ({error!r}): remove it, and it will be computed again"
        ) from error


def _shapes_for(base: BaseNetwork, image_set: ImageSet, sizes: Sizes) -> list[Shape]:
    """The shape of each array, from the description of the network alone: nothing is computed."""
    channels = {layer.reads: layer.channels for layer in base.tail.layers} if base.tail else {}
    phi = (math.prod(base.map_size(*image_set.images.shape[1:3])), base.network.dim)
    maps = [(math.prod(size), channels[number]) for number, size in enumerate(sizes)]
    return [(len(image_set), *part) for part in (*maps, phi)]


def _check_arrays(arrays: Sequence[np.ndarray], shapes: Sequence[Shape], dtype: np.dtype) -> None:
    if len(arrays) != len(shapes):
        raise ValueError(f"{len(arrays)} arrays; {len(shapes)} are needed")
    for number, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
        if array.shape != shape or array.dtype != dtype:
            raise ValueError(f"array {number} is {array.dtype} {array.shape}; {dtype} {shape} is needed")
