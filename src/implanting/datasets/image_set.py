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
"""Images hashed or copied at once, so that a memory-mapped set is never loaded whole."""


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images as decoded, with labels of 0 to classes - 1."""

    images: UInt8[Tensor, "image height width 3"]
    labels: Int64[Tensor, " image"]
    class_names: tuple[str, ...]
    name: str
    """Such as "FC100 train"."""
    resizing: str
    """The rule by which the images were resized."""
    skipped: int = 0
    """Files in the class folders that are not images."""
    stored_size: tuple[int, int] | None = None
    """Height and width of the first image as it was stored, where that is known."""

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of shape, pixels, labels and class names: equal for equal data, wherever it was read from."""
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
        """How many images the class with the fewest has."""
        return min(len(indices) for indices in self.indices_by_class())

    def subset(self, indices: Int64[Tensor, " chosen"], budget: int = MEMORY_BUDGET) -> "ImageSet":
        """A copy of some images; the classes stay, even those without an image."""
        chosen = torch.from_numpy(allocate((len(indices), *self.images.shape[1:]), budget))
        for start in range(0, len(indices), CHUNK):
            torch.index_select(self.images, 0, indices[start : start + CHUNK], out=chosen[start : start + CHUNK])
        return replace(self, images=chosen, labels=self.labels[indices])

    def choose_held_out(self, per_class: int, seed: int) -> Int64[Tensor, " held"]:
        """The sorted indices of `per_class` images of each class; at least one image of each is left."""
        self.require(per_class + 1, f"holding out {per_class}", "hold out fewer")
        generator = torch.Generator().manual_seed(seed)
        chosen = [
            indices[torch.randperm(len(indices), generator=generator)[:per_class]]
            for indices in self.indices_by_class()
        ]
        return torch.cat(chosen).sort().values

    def without(self, indices: Int64[Tensor, " held"]) -> "ImageSet":
        """A copy of all other images."""
        kept = torch.ones(len(self), dtype=torch.bool)
        kept[indices] = False
        return self.subset(kept.nonzero().flatten())

    def require(self, needed: int, purpose: str, remedy: str) -> None:
        """Raise unless every class has at least `needed` images."""
        for name, indices in zip(self.class_names, self.indices_by_class(), strict=True):
            if (found := len(indices)) < needed:
                raise DataError(
                    f"{self.name}: class '{name}' has {found} image{'s' * (found != 1)}; at least {needed} are needed "
                    f"for {purpose}: {remedy}, or add {needed - found}"
                )


def check_disjoint(*sets: ImageSet) -> None:
    """Raise if a class stands in two sets.

    Sets whose classes are both called exactly "0" to "n - 1" come from files that each count from 0: those are
    different classes.
    """
    for position, first in enumerate(sets):
        for second in sets[position + 1 :]:
            if shared := shared_classes(first.class_names, second.class_names):
                raise DataError(
                    f"{first.name} and {second.name} share {len(shared)} classes, such as '{shared[0]}'; few-shot "
                    "splits have no class in common: choose other splits"
                )


def shared_classes(first: tuple[str, ...], second: tuple[str, ...]) -> list[str]:
    """The classes that two sets have in common, by name."""
    if _counted_anew(first) and _counted_anew(second):
        return []
    return sorted(set(first) & set(second))


def _counted_anew(class_names: tuple[str, ...]) -> bool:
    return class_names == tuple(str(number) for number in range(len(class_names)))
