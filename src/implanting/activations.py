"""Encode once: the base activations of an image set, which no task changes.

One pass over the images gives, for each, the maps that implants read and phi. They are kept in memory, or memory-mapped
when they are larger than a budget or when a folder is named to keep them in. A folder says of which base and which
images it is; one of others is refused, never used.
"""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.checkpoint import write_atomically
from implanting.config import MEMORY_BUDGET
from implanting.datasets import ImageSet
from implanting.distributed import group, wait_for_all
from implanting.embedding import through
from implanting.errors import DataError
from implanting.images import allocate, reserve
from implanting.progress import Progress, silent
from implanting.similarity import locations
from implanting.tail import Sizes

DESCRIPTION = "activations.json"
"""Written last: a folder without it is no cache."""

Cached = Float[Tensor, "image _ _"]
CachedPhi = Float[Tensor, "image pooled dim"]


@dataclass(frozen=True)
class Activations:
    """What the frozen network computes for each image."""

    base_maps: list[Cached]
    """What the implanted layers read; in ResNet-12 the last block's input z, then a_1, a_2."""
    phi: CachedPhi
    sizes: Sizes
    """Rows and columns of each base map."""

    def of(self, images: Int[Tensor, "*task image"]) -> tuple[list[Tensor], Tensor]:
        """The maps and phi of some images, [*task image location channel], in single precision."""
        return [maps[images].float() for maps in self.base_maps], self.phi[images].float()

    def first(self, images: int) -> "Activations":
        """Those of the first images; no copy."""
        return Activations([maps[:images] for maps in self.base_maps], self.phi[:images], self.sizes)


def compute_activations(
    base: BaseNetwork,
    image_set: ImageSet,
    *,
    half: bool = False,
    cache: Path | None = None,
    budget: int = MEMORY_BUDGET,
    progress: Progress = silent,
) -> Activations:
    """All activations of an image set; with a cache folder, from there, and written there first if need be."""
    dtype = np.dtype(np.float16 if half else np.float32)
    if cache is not None:
        return cached_activations(base, image_set, cache, dtype, progress)
    shapes, sizes = shapes_of(base, image_set)
    arrays = allocate_all(shapes, dtype, budget)
    fill(base, image_set, arrays, progress)
    return activations_of(arrays, sizes)


def cached_activations(
    base: BaseNetwork, image_set: ImageSet, cache: Path, dtype: np.dtype, progress: Progress
) -> Activations:
    """The activations of a folder; of several processes one writes it, where it is not there, and all read it."""
    identity = {
        "base": base.fingerprint,
        "images": image_set.fingerprint,
        "tail": hashlib.sha256(repr(base.tail).encode()).hexdigest(),
        "dtype": dtype.name,
    }
    if group()[0] == 0 and not (cache / DESCRIPTION).exists():
        shapes, sizes = shapes_of(base, image_set)
        fill(base, image_set, open_files(cache, shapes, dtype), progress)
        described = json.dumps({**identity, "sizes": sizes, "arrays": len(shapes)})
        write_atomically(cache / DESCRIPTION, described.encode())
    wait_for_all()
    return open_cache(cache, identity)


def encode(
    base: BaseNetwork, images: UInt8[Tensor, "image height width 3"]
) -> tuple[list[Float[Tensor, "image _ _"]], Float[Tensor, "image pooled dim"], Sizes]:
    """The maps that implants read and phi of a few images, [image location channel] in memory, and the maps' sizes."""
    network = base.quick  # made here, once, before several threads ask for it
    encoded = through(network, images, lambda rows: base.activations(images[rows]))
    *maps, phi = (
        torch.cat([locations(part).cpu() for part in parts])
        for parts in zip(*((*maps, phi) for maps, phi in encoded), strict=True)
    )
    return maps, phi, tuple((part.shape[2], part.shape[3]) for part in encoded[0][0])


def activations_of(arrays: Sequence[np.ndarray], sizes: Sizes) -> Activations:
    """Arrays as tensors that share their memory."""
    *base_maps, phi = (torch.from_numpy(array) for array in arrays)
    return Activations(base_maps, phi, sizes)


def shapes_of(base: BaseNetwork, image_set: ImageSet) -> tuple[list[tuple[int, ...]], Sizes]:
    """The shape of each array of the cache, and the rows and columns of each map."""
    maps, phi = base.activations(image_set.images[:1])
    sizes = tuple((part.shape[2], part.shape[3]) for part in maps)
    return [(len(image_set), part[0, 0].numel(), part.shape[1]) for part in (*maps, phi)], sizes


def fill(base: BaseNetwork, image_set: ImageSet, arrays: Sequence[np.ndarray], progress: Progress) -> None:
    """One pass over the images."""

    def encode_rows(rows: slice) -> None:
        maps, phi = base.activations(image_set.images[rows])
        for array, part in zip(arrays, (*maps, phi), strict=True):
            array[rows] = locations(part).cpu().numpy()

    through(base.quick, image_set.images, encode_rows, progress, "base activations")


def allocate_all(shapes: Sequence[tuple[int, ...]], dtype: np.dtype, budget: int) -> list[np.ndarray]:
    """Arrays in memory, or all of them on disk where together they exceed the budget."""
    total = sum(int(np.prod(shape)) for shape in shapes) * dtype.itemsize
    allowed = budget if total <= budget else 0
    return [allocate((*shape[:-1], shape[-1] * dtype.itemsize), allowed).view(dtype) for shape in shapes]


def file_of(cache: Path, number: int) -> Path:
    """The file of one array."""
    return cache / f"map-{number}.npy"


def open_files(cache: Path, shapes: Sequence[tuple[int, ...]], dtype: np.dtype) -> list[np.ndarray]:
    """Memory-mapped files of the full size, so that a full disk is found before anything is computed."""
    files = [file_of(cache, number) for number in range(len(shapes))]
    try:
        cache.mkdir(parents=True, exist_ok=True)
        arrays: list[np.ndarray] = [
            np.lib.format.open_memmap(file, mode="w+", dtype=dtype, shape=shape)
            for file, shape in zip(files, shapes, strict=True)
        ]
        for file in files:
            with file.open("r+b") as opened:
                reserve(opened, file.stat().st_size)
    except OSError as error:
        for file in files:
            with suppress(OSError):
                file.unlink()
        needed = sum(int(np.prod(shape)) for shape in shapes) * dtype.itemsize
        raise DataError(
            f"the cache {cache} needs {needed / 2**30:.2f} GiB and cannot have them ({error.strerror}): free space, "
            "choose another folder, or use half precision"
        ) from error
    return arrays


def open_cache(cache: Path, identity: dict[str, str]) -> Activations:
    """The activations that a folder holds; those of another base, other images or another precision are refused."""
    try:
        found = json.loads((cache / DESCRIPTION).read_text())
        stated = {name: str(found[name]) for name in identity}
        sizes = tuple((int(rows), int(columns)) for rows, columns in found["sizes"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f"the cache {cache} is damaged ({error!r}): remove it, and it will be made anew") from error
    for name, value in identity.items():
        if stated[name] != value:
            raise DataError(
                f"the cache {cache} is of another {name} ({stated[name][:12]}, here {value[:12]}): "
                "name another folder or remove this one"
            )
    try:  # copy-on-write: the folder may be read-only, and nothing done here can reach it
        arrays = [np.load(file_of(cache, number), mmap_mode="c") for number in range(found["arrays"])]
    except (OSError, ValueError) as error:
        raise DataError(f"the cache {cache} is damaged ({error}): remove it, and it will be made anew") from error
    return activations_of(arrays, sizes)
