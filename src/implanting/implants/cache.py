"""A folder of activations and what it says of itself: of which base, images, layers and precision it is.

One of others is refused, never used; so is one whose arrays are not what the base would give.
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
"""Written last: a folder without it is no cache."""

CHUNK = 64
"""Images whose activations are looked at together."""

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
    with _damage_reported(cache):  # copy-on-write: the folder may be read-only, and nothing done here can reach it
        shapes = _shapes_for(base, image_set, found.sizes)
        if found.arrays != len(shapes):
            raise ValueError(f"{found.arrays} arrays; needed are {len(shapes)}")
        arrays = open_files(cache, shapes, dtype, "c")
        _check_finite(arrays)
    return arrays, found.sizes


@dataclass(frozen=True)
class Described:
    """What a cache says of itself."""

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
    """Whatever cannot be read of a cache becomes one error that says what to do."""
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError, EOFError) as error:
        raise DataError(f"the cache {cache} is damaged ({error!r}): remove it, and it will be made again") from error


def _shapes_for(base: BaseNetwork, image_set: ImageSet, sizes: Sizes) -> list[Shape]:
    """The shape of each array, told from the description of the network, which computes nothing."""
    channels = {layer.reads: layer.channels for layer in base.tail.layers} if base.tail else {}
    phi = (math.prod(base.map_size(*image_set.images.shape[1:3])), base.network.dim)
    maps = [(math.prod(size), channels[number]) for number, size in enumerate(sizes)]
    return [(len(image_set), *part) for part in (*maps, phi)]


def _check_finite(arrays: Sequence[np.ndarray]) -> None:
    for number, array in enumerate(arrays):
        if not all(np.isfinite(array[start : start + CHUNK]).all() for start in range(0, len(array), CHUNK)):
            raise ValueError(f"array {number} holds a number that is not finite")
