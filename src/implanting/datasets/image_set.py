"""`ImageSet`: the images, labels and class names of one split, in memory or memory-mapped."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from implanting.config import MEMORY_BUDGET
from implanting.errors import DataError
from implanting.runtime import allocate

CHUNK = 1024
"""Images hashed or copied per step, so that a memory-mapped set is never loaded as a whole."""


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Decoded images, with labels from 0 to classes - 1."""

    images: UInt8[Tensor, "image height width 3"]
    labels: Int64[Tensor, " image"]
    class_names: tuple[str, ...]
    name: str
    """A name for display, such as "FC100 train"."""
    resizing: str
    """The rule by which the images were resized."""
    skipped: int = 0
    """Files in the class folders that are not images."""
    stored_size: tuple[int, int] | None = None
    """Stored height and width of the first image, if known."""

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of shape, pixels, labels and class names; equal for equal data, whatever its source."""
        digest = hashlib.sha256(repr((tuple(self.images.shape), self.class_names)).encode())
        digest.update(self.labels.numpy().tobytes())
        for chunk in self.images.split(CHUNK):
            digest.update(chunk.contiguous().numpy().data)
        return digest.hexdigest()

    def indices_by_class(self) -> list[Int64[Tensor, " shot"]]:
        """The indices of each class's images, in order."""
        order = torch.argsort(self.labels, stable=True)
        counts = torch.bincount(self.labels, minlength=len(self.class_names))
        return list(order.split(counts.tolist()))

    @property
    def smallest_class(self) -> int:
        """Number of images of the smallest class."""
        return min(len(indices) for indices in self.indices_by_class())

    def subset(self, indices: Int64[Tensor, " chosen"], budget: int = MEMORY_BUDGET) -> "ImageSet":
        """Copy some of the images; all classes are kept, even those without an image."""
        chosen = torch.from_numpy(allocate((len(indices), *self.images.shape[1:]), budget))
        for start in range(0, len(indices), CHUNK):
            torch.index_select(self.images, 0, indices[start : start + CHUNK], out=chosen[start : start + CHUNK])
        return replace(self, images=chosen, labels=self.labels[indices])

    def choose_held_out(self, per_class: int, seed: int) -> Int64[Tensor, " held"]:
        """Choose `per_class` images of each class, leaving at least one; return their sorted indices."""
        self.require(per_class + 1, f"holding out {per_class}", "hold out fewer")
        generator = torch.Generator().manual_seed(seed)
        chosen = [
            indices[torch.randperm(len(indices), generator=generator)[:per_class]]
            for indices in self.indices_by_class()
        ]
        return torch.cat(chosen).sort().values

    def without(self, indices: Int64[Tensor, " held"]) -> "ImageSet":
        """Copy all images except these."""
        kept = torch.ones(len(self), dtype=torch.bool)
        kept[indices] = False
        return self.subset(kept.nonzero().flatten())

    def require(self, needed: int, purpose: str, remedy: str) -> None:
        """Raise an error unless every class has at least `needed` images."""
        for name, indices in zip(self.class_names, self.indices_by_class(), strict=True):
            if (found := len(indices)) < needed:
                raise DataError(
                    f"{self.name}: class '{name}' has {found} image{'s' * (found != 1)}; at least {needed} are needed "
                    f"for {purpose}: {remedy}, or add {needed - found}"
                )


def check_disjoint(*sets: ImageSet) -> None:
    """Raise an error if a class is in two sets.

    If the classes of both sets are named exactly "0" to "n - 1", their files each count from 0, and these are different
    classes.
    """
    for position, first in enumerate(sets):
        for second in sets[position + 1 :]:
            if shared := shared_classes(first.class_names, second.class_names):
                raise DataError(
                    f"{first.name} and {second.name} share {len(shared)} classes, such as '{shared[0]}'; few-shot "
                    "splits have no class in common: choose other splits"
                )


def shared_classes(first: tuple[str, ...], second: tuple[str, ...]) -> list[str]:
    """Return the names of the classes that two sets have in common."""
    if _counted_anew(first) and _counted_anew(second):
        return []
    return sorted(set(first) & set(second))


def _counted_anew(class_names: tuple[str, ...]) -> bool:
    return class_names == tuple(str(number) for number in range(len(class_names)))
