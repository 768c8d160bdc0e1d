"""Encode once: the base activations of an image set, which no task changes, and those of the supports of tasks.

One pass over the images computes the maps that implants read, and phi. They are kept in memory, or memory-mapped if
they exceed a budget or if the user names a folder to keep them in. The folder records which base and which images they
belong to; with another base or other images it is refused.

The supports of tasks are gathered from it. Tasks are the first axis, and classes may differ in their number of images.
A user's classifier is a batch of one task, so it shares all of this with the evaluation of thousands.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from implanting.base import BaseNetwork, embed_batch, through
from implanting.config import MEMORY_BUDGET
from implanting.datasets import ImageSet
from implanting.dense_classification import locations
from implanting.implants.cache import DESCRIPTION, describe, read_cache
from implanting.networks import Sizes
from implanting.runtime import (
    Progress,
    Shape,
    allocate,
    alone_in,
    common_arrays,
    falls_to_this_process,
    from_rank_zero,
    group,
    kept_arrays,
    on_one_machine,
    silent,
    wait_for_all,
)

Cached = Float[Tensor, "image _ _"]
CachedPhi = Float[Tensor, "image pooled dim"]

PooledMaps = Float[Tensor, "task image pooled _"]

BaseMaps = list[Float[Tensor, "task image _ _"]]
"""One tensor per base map; their sizes differ."""


@dataclass(frozen=True)
class Activations:
    """The maps and phi that the frozen network computes for each image."""

    base_maps: list[Cached]
    """The maps that the implanted layers read; in ResNet-12 the last block's input z, then a_1 and a_2."""
    phi: CachedPhi
    sizes: Sizes
    """Rows and columns of each base map."""

    def gather(self, images: Int[Tensor, "*task image"]) -> tuple[list[Tensor], Tensor]:
        """The maps and phi of the images with these indices, [*task image location channel], in single precision."""
        return [maps[images].float() for maps in self.base_maps], self.phi[images].float()

    def first(self, images: int) -> "Activations":
        """The activations of the first `images` images, as views."""
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
    """All activations of an image set; with a cache folder, read from it, after writing them if it is empty.

    Processes on one machine compute a part each and share one copy of the whole.
    """
    dtype = np.dtype(np.float16 if half else np.float32)
    if cache is not None:
        return _cached_activations(base, image_set, cache, dtype, progress)
    shapes, sizes = _shapes_of(base, image_set)
    arrays = common_arrays(shapes, dtype) if on_one_machine() else _allocate_all(shapes, dtype, budget)
    _fill(base, image_set, arrays, progress)
    wait_for_all()
    return _activations_of(arrays, sizes)


def embed_together(
    base: BaseNetwork, images: UInt8[Tensor, "image height width 3"], progress: Progress = silent
) -> Float[Tensor, "image location dim"]:
    """`BaseNetwork.embed`, called by all processes: those on one machine share the work and the memory."""
    if not on_one_machine():
        return base.embed(images, progress)
    shape = (len(images), math.prod(base.map_size(*images.shape[1:3])), base.network.dim)
    (array,) = common_arrays([shape], np.dtype(np.float32))
    network = base.quick  # made here, once, before several threads ask for it

    def embed_rows(rows: slice) -> None:
        if falls_to_this_process(rows):
            array[rows] = embed_batch(network, base.preprocessing.normalisation, images[rows]).cpu().numpy()

    through(network, images, embed_rows, progress, "embedding")
    wait_for_all()
    return torch.from_numpy(array).to(base.device)


def _cached_activations(
    base: BaseNetwork, image_set: ImageSet, cache: Path, dtype: np.dtype, progress: Progress
) -> Activations:
    if not from_rank_zero((cache / DESCRIPTION).exists()):
        with alone_in(cache):  # another command may be writing the same cache; then it is there when our turn comes
            if not from_rank_zero((cache / DESCRIPTION).exists()):
                _write_cache(base, image_set, cache, dtype, progress)
    return _activations_of(*read_cache(cache, base, image_set, dtype))


def _write_cache(base: BaseNetwork, image_set: ImageSet, cache: Path, dtype: np.dtype, progress: Progress) -> None:
    shapes, sizes = _shapes_of(base, image_set)
    remedy = "choose another folder" + (", or use `half`" if dtype == np.float32 else "")
    with kept_arrays(cache, shapes, dtype, remedy) as arrays:
        if arrays:
            _fill(base, image_set, arrays, progress)
        wait_for_all()
        if group()[0] == 0:
            describe(cache, base, image_set, dtype, sizes, arrays)


def encode(
    base: BaseNetwork, images: UInt8[Tensor, "image height width 3"]
) -> tuple[list[Float[Tensor, "image _ _"]], Float[Tensor, "image pooled dim"], Sizes]:
    """The maps that implants read and phi, [image location channel] in memory, and the sizes of the maps."""
    network = base.quick  # made here, once, before several threads ask for it
    encoded = through(network, images, lambda rows: base.activations(images[rows]))
    *maps, phi = (
        torch.cat([locations(part).cpu() for part in parts])
        for parts in zip(*((*maps, phi) for maps, phi in encoded), strict=True)
    )
    return maps, phi, tuple((part.shape[2], part.shape[3]) for part in encoded[0][0])


def _activations_of(arrays: Sequence[np.ndarray], sizes: Sizes) -> Activations:
    *base_maps, phi = (torch.from_numpy(array) for array in arrays)
    return Activations(base_maps, phi, sizes)


def _shapes_of(base: BaseNetwork, image_set: ImageSet) -> tuple[list[Shape], Sizes]:
    """The shape of each array, and the rows and columns of each map."""
    maps, phi = base.activations(image_set.images[:1])
    sizes = tuple((part.shape[2], part.shape[3]) for part in maps)
    return [(len(image_set), part[0, 0].numel(), part.shape[1]) for part in (*maps, phi)], sizes


def _fill(base: BaseNetwork, image_set: ImageSet, arrays: Sequence[np.ndarray], progress: Progress) -> None:
    def encode_rows(rows: slice) -> None:
        if not falls_to_this_process(rows):
            return
        maps, phi = base.activations(image_set.images[rows])
        for array, part in zip(arrays, (*maps, phi), strict=True):
            array[rows] = locations(part).cpu().numpy()

    through(base.quick, image_set.images, encode_rows, progress, "base activations")


def _allocate_all(shapes: Sequence[Shape], dtype: np.dtype, budget: int) -> list[np.ndarray]:
    """Arrays in memory, or all of them on disk if together they exceed the budget."""
    total = sum(int(np.prod(shape)) for shape in shapes) * dtype.itemsize
    allowed = budget if total <= budget else 0
    return [allocate((*shape[:-1], shape[-1] * dtype.itemsize), allowed).view(dtype) for shape in shapes]


@dataclass(frozen=True)
class Supports:
    """Base activations of the support images of tasks; view v of image i is row i * views + v."""

    base_maps: BaseMaps
    phi: PooledMaps
    labels: Int[Tensor, " label"]
    """The class of each image; the same in all these tasks."""
    sizes: Sizes
    """Rows and columns of the base maps."""
    views: int = 1

    @classmethod
    def of_one_task(
        cls,
        base_maps: Sequence[Float[Tensor, "image _ _"]],
        phi: Float[Tensor, "image pooled _"],
        labels: Int[Tensor, " label"],
        sizes: Sizes,
        views: int = 1,
    ) -> "Supports":
        """The supports of a single task, as a batch of one."""
        return cls([maps[None] for maps in base_maps], phi[None], labels, sizes, views)

    def __len__(self) -> int:
        return len(self.phi)

    def __getitem__(self, tasks: slice) -> "Supports":
        """The supports of these tasks."""
        return replace(self, base_maps=[maps[tasks] for maps in self.base_maps], phi=self.phi[tasks])

    @property
    def groups(self) -> Int[Tensor, " image"] | None:
        """The image that each row is a view of; None if each row is an image of its own."""
        return torch.arange(len(self.labels)).repeat_interleave(self.views) if self.views > 1 else None

    @property
    def row_labels(self) -> Int[Tensor, " image"]:
        """The class of each row."""
        return self.labels.repeat_interleave(self.views)

    def select(self, tasks: Int[Tensor, " chosen"], images: Int[Tensor, "chosen image"]) -> "Supports":
        """Some images of each chosen task, with all their views; each task must select images of the same classes."""
        rows = (images[..., None] * self.views + torch.arange(self.views)).flatten(1)
        base_maps = [maps[tasks[:, None], rows] for maps in self.base_maps]
        return replace(self, base_maps=base_maps, phi=self.phi[tasks[:, None], rows], labels=self.labels[images[0]])

    def first_views(self, views: int) -> "Supports":
        """The same images, with only the first `views` views of each."""
        if views == self.views:
            return self
        rows = torch.arange(len(self.labels) * self.views).view(-1, self.views)[:, :views].flatten()
        return replace(self, base_maps=[maps[:, rows] for maps in self.base_maps], phi=self.phi[:, rows], views=views)
