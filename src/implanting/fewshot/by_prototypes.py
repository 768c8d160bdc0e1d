"""Prototypes of the base network's own features: stage 1 alone."""

from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.config import InferenceConfig, SupportPooling
from implanting.dense_classification import PrototypeClassifier, pool, prototype_classifier, prototypes, uncentred
from implanting.fewshot.gathering import answers_of
from implanting.fewshot.method import Queries, counted, in_views, named
from implanting.fewshot.tasks import Tasks


@dataclass(frozen=True)
class PrototypeMethod:
    """Classify by prototypes of the base network's own features.

    The result equals `classify` on gathered features, but every image is pooled and normalised once instead of once per
    task, which leaves only the gathering.
    """

    phi: Float[Tensor, "row location dim"]
    """Features of the images, followed by those of their other views."""
    classify: PrototypeClassifier
    tasks_at_once: int = 1024
    support_views: int = 1
    """A support is the mean of so many views."""
    query_views: int = 1
    """A query has the locations of so many views; phi has as many views as the larger number."""

    @cached_property
    def support_vectors(self) -> Float[Tensor, "image dim"]:
        """All images pooled as supports, averaged over views."""
        return self.classify.vectors(self._in_views(self.support_views)).mean(0)

    @cached_property
    def query_directions(self) -> Float[Tensor, "image location dim"]:
        """All images pooled as queries, with locations of unit length."""
        pooling = uncentred(self.classify.query_pooling)
        locations = pool(self._in_views(self.query_views), pooling).transpose(0, 1).flatten(1, 2)
        together = pool(locations, pooling) if pooling in get_args(SupportPooling) else locations
        return F.normalize(self.classify.centred(together), dim=-1)

    def _in_views(self, views: int) -> Float[Tensor, "view image location dim"]:
        """The first views of all images."""
        return self.phi.unflatten(0, (max(self.support_views, self.query_views), -1))[:views]

    def directions(self, tasks: Tasks) -> Float[Tensor, "task way dim"]:
        """Compute the prototypes of each task, with unit length."""
        supports = tasks.support.to(self.phi.device)
        means = prototypes(self.support_vectors, supports.flatten(), supports.shape[2])
        return F.normalize(means, dim=-1).view(*supports.shape[:2], -1)

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        with torch.inference_mode():
            vectors = self.classify.tau * self.directions(tasks)
            return named(tasks, answers_of(self.query_directions, tasks, vectors))

    @torch.inference_mode()
    def cosines(self, tasks: Tasks) -> tuple[Float[Tensor, "query pooled way"], Int[Tensor, " query"]]:
        """Return the cosines of each query's locations with its task's prototypes, and its true class in the task."""
        pairs = zip(tasks.query, self.directions(tasks), strict=True)
        found = [self.query_directions[query.flatten()] @ directions.T for query, directions in pairs]
        way, queries = tasks.query.shape[1:]
        return torch.cat(found), torch.arange(way).repeat_interleave(queries).repeat(len(tasks))

    def __str__(self) -> str:
        asked = f", queries in {counted(self.query_views)}" if self.query_views > 1 else ""
        return f"prototypes ({self.classify}{in_views(self.support_views)}{asked})"


def prototype_method(
    base: BaseNetwork, phi: Float[Tensor, "row location dim"], pooling: InferenceConfig
) -> PrototypeMethod:
    """Make the method with the base's tau; `phi` must contain all views that are averaged."""
    classify = prototype_classifier(base.pooling, base.tau, pooling, base.mean_direction)
    return PrototypeMethod(phi, classify, support_views=pooling.support_views, query_views=pooling.query_views)
