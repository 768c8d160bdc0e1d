"""Features of the images, computed when a method first needs them, and only once for all methods.

There are as many views of the images as the most demanding approach reads; where there are implants, prototypes read
the same pass.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.baselines import pooled
from implanting.datasets import ImageSet, add_views
from implanting.dense_classification import pool
from implanting.evaluation.approaches import Approach
from implanting.evaluation.task_images import TaskImages
from implanting.implants import DESCRIPTION, Activations, compute_activations, embed_together
from implanting.runtime import Progress, from_rank_zero, silent

TRAINED_IMAGES = 100
"""The largest number of images of each base class that methods read."""


class Features:
    """The features that some approaches need."""

    def __init__(
        self,
        base: BaseNetwork,
        images: TaskImages,
        approaches: Sequence[Approach],
        *,
        half: bool = False,
        cache: Path | None = None,
        progress: Progress = silent,
    ) -> None:
        self.base = base
        self.images = images
        self.approaches = approaches
        self.half = half
        self.cache = cache
        self.progress = progress

    @property
    def implants(self) -> bool:
        """Whether any approach needs the maps that implants read."""
        return any(approach.reads_activations for approach in self.approaches)

    @cached_property
    def seen(self) -> ImageSet:
        """The images of novel classes, then as many other views of them as are read."""
        return add_views(self.images.novel, max(approach.views for approach in self.approaches))

    def check_cache(self) -> None:
        """Refuse an existing cache of another base or of other images; nothing is computed."""
        if self.implants and self.cache is not None and from_rank_zero((self.cache / DESCRIPTION).exists()):
            compute_activations(self.base, self.seen, half=self.half, cache=self.cache)

    @cached_property
    def activations(self) -> Activations:
        """The maps that implants read, and phi, of the images and then of their other views."""
        return compute_activations(self.base, self.seen, half=self.half, cache=self.cache, progress=self.progress)

    @cached_property
    def phi(self) -> Float[Tensor, "row location dim"]:
        """phi of the images, then of the other views of them that prototypes average."""
        views = max(approach.pooling.views for approach in self.approaches)
        if self.implants:
            return self.activations.phi[: views * len(self.images.novel)].float()
        return embed_together(self.base, add_views(self.images.novel, views).images, self.progress)

    @cached_property
    def base_phi(self) -> Float[Tensor, "image location dim"]:
        """phi of the images of base classes."""
        return embed_together(self.base, self.images.base.images, self.progress)

    @cached_property
    def vectors(self) -> Float[Tensor, "image dim"]:
        """One vector per image of novel classes: phi pooled as in training, or by its mean if training was dense."""
        return pooled(self.phi[: len(self.images.novel)], self.base.pooling)

    @cached_property
    def generalised_vectors(self) -> Float[Tensor, "image dim"]:
        """The same by the generalised mean, for methods that need nothing else of the base."""
        return pool(self.phi[: len(self.images.novel)], "gem").squeeze(1)

    @cached_property
    def trained(self) -> ImageSet:
        """Some images of each base class that were trained on."""
        images = self.images.require_trained(self.base, "with base images")
        return images.subset(torch.cat([indices[:TRAINED_IMAGES] for indices in images.indices_by_class()]))

    @cached_property
    def trained_vectors(self) -> Float[Tensor, "base_image dim"]:
        """One vector for each of these."""
        return pooled(embed_together(self.base, self.trained.images, self.progress), self.base.pooling)
