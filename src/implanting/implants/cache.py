"""A folder of activations and what it says of itself: of which base, images, layers and precision it is.

One of others is refused, never used; so is one whose arrays are not what the base would give.
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
"""Written last: a folder without it is no cache."""

OTHER = {
    "base": "another base network",
    "images": "other images, by their split or their number of views",
    "tail": "other implanted layers",
    "dtype": "another precision",
}
"""What a cache may be of that is refused."""


def _identity_of(base: BaseNetwork, image_set: ImageSet, dtype: np.dtype) -> dict[str, str]:
    return {
        "base": base.fingerprint,
        "images": image_set.fingerprint,
        "tail": hashlib.sha256(repr(base.tail).encode()).hexdigest(),
        "dtype": dtype.name,
    }


def _words_for(image_set: ImageSet) -> str:
    """An image set for people; with views it has each image several times."""
    return f"{image_set.name} of {len(image_set)} images, views counted"


def describe(
    cache: Path, base: BaseNetwork, image_set: ImageSet, dtype: np.dtype, sizes: Sizes, arrays: Sequence[np.ndarray]
) -> None:
    """Make a cache of a folder that holds its arrays."""
    identity = _identity_of(base, image_set, dtype)
    described = {**identity, "of": _words_for(image_set), "sizes": sizes, "arrays": len(arrays)}
    write_atomically(cache / DESCRIPTION, json.dumps(described).encode())


def read_cache(cache: Path, base: BaseNetwork, image_set: ImageSet, dtype: np.dtype) -> tuple[list[np.ndarray], Sizes]:
    """The arrays that a cache holds and the sizes of the maps, where it is the cache of all these."""
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
    with _damage_reported(cache):  # copy-on-write: the folder may be read-only, and nothing done here can reach it
        arrays = open_files(cache, number, "c")
        _check_arrays(arrays, _shapes_for(base, image_set, sizes), dtype)
    return arrays, sizes


@contextmanager
def _damage_reported(cache: Path) -> Iterator[None]:
    """Whatever cannot be read of a cache becomes one error that says what to do."""
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f"the cache {cache} is damaged ({error!r}): remove it, and it will be made anew") from error


def _shapes_for(base: BaseNetwork, image_set: ImageSet, sizes: Sizes) -> list[Shape]:
    """The shape of each array, told from the description of the network, which computes nothing."""
    channels = {layer.reads: layer.channels for layer in base.tail.layers} if base.tail else {}
    phi = (math.prod(base.map_size(*image_set.images.shape[1:3])), base.network.dim)
    maps = [(math.prod(size), channels[number]) for number, size in enumerate(sizes)]
    return [(len(image_set), *part) for part in (*maps, phi)]


def _check_arrays(arrays: Sequence[np.ndarray], shapes: Sequence[Shape], dtype: np.dtype) -> None:
    """Raise unless these are the arrays that are needed."""
    if len(arrays) != len(shapes):
        raise ValueError(f"{len(arrays)} arrays; needed are {len(shapes)}")
    for number, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
        if array.shape != shape or array.dtype != dtype:
            raise ValueError(f"array {number} is {array.dtype} {array.shape}; needed is {dtype} {shape}")
