"""The supports of tasks: what the frozen network computed for them, and their classes.

Tasks are the first axis, and their classes may be uneven. One task is a batch of one: a user's classifier and the
evaluation of thousands of tasks are made of these alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from implanting.networks import Sizes

PooledMaps = Float[Tensor, "task image pooled _"]
BaseMaps = list[Float[Tensor, "task image _ _"]]
"""Maps of several sizes."""


@dataclass(frozen=True)
class Supports:
    """Base activations of the support images of tasks; view v of image i stands at i * views + v."""

    base_maps: BaseMaps
    phi: PooledMaps
    labels: Int[Tensor, " label"]
    """The class of each image, the same in all of these tasks."""
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
        """A task by itself."""
        return cls([maps[None] for maps in base_maps], phi[None], labels, sizes, views)

    def __len__(self) -> int:
        return len(self.phi)

    def __getitem__(self, tasks: slice) -> "Supports":
        """Some of the tasks."""
        return replace(self, base_maps=[maps[tasks] for maps in self.base_maps], phi=self.phi[tasks])

    @property
    def groups(self) -> Int[Tensor, " image"] | None:
        """Which image each row is a view of; None where each is an image by itself."""
        return torch.arange(len(self.labels)).repeat_interleave(self.views) if self.views > 1 else None

    @property
    def row_labels(self) -> Int[Tensor, " image"]:
        """The class of each row."""
        return self.labels.repeat_interleave(self.views)

    def some(self, tasks: Int[Tensor, " some"], images: Int[Tensor, "some chosen"]) -> "Supports":
        """Some images of each of some tasks, with all their views; they must be of the same classes in all of them."""
        rows = (images[..., None] * self.views + torch.arange(self.views)).flatten(1)
        base_maps = [maps[tasks[:, None], rows] for maps in self.base_maps]
        return replace(self, base_maps=base_maps, phi=self.phi[tasks[:, None], rows], labels=self.labels[images[0]])

    def first_views(self, views: int) -> "Supports":
        """The same images in their first views only."""
        if views == self.views:
            return self
        rows = torch.arange(len(self.labels) * self.views).view(-1, self.views)[:, :views].flatten()
        return replace(self, base_maps=[maps[:, rows] for maps in self.base_maps], phi=self.phi[:, rows], views=views)
