"""Prototypes of the base network's own features: stage 1 alone."""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.config import InferenceConfig
from implanting.dense_classification import PrototypeClassifier, pool, prototype_classifier
from implanting.fewshot.gathering import answers_of
from implanting.fewshot.method import Queries, in_views, named
from implanting.fewshot.tasks import Tasks


@dataclass(frozen=True)
class PrototypeMethod:
    """Prototypes of the base network's own features.

    Equal to `classify` on gathered features, but pools and normalises every image once, not once a task: gathering is
    what is left to do.
    """

    phi: Float[Tensor, "row location dim"]
    """Of the images, then of their other views."""
    classify: PrototypeClassifier
    tasks_at_once: int = 1024
    views: int = 1
    """Views of each image in phi; a support is the mean of them, a query the image itself."""

    @cached_property
    def support_vectors(self) -> Float[Tensor, "image dim"]:
        """Every image pooled as a support, the mean of its views."""
        return pool(self.phi, self.classify.support_pooling).squeeze(1).unflatten(0, (self.views, -1)).mean(0)

    @cached_property
    def query_directions(self) -> Float[Tensor, "image location dim"]:
        """Every image pooled as a query, its locations of unit length."""
        images = self.phi[: len(self.phi) // self.views]
        return F.normalize(pool(images, self.classify.query_pooling), dim=-1)

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        with torch.inference_mode():
            supports = tasks.support.flatten(0, 1).to(self.phi.device)
            means = F.embedding_bag(supports, self.support_vectors, mode="mean")  # gathers nothing
            vectors = self.classify.tau * F.normalize(means, dim=-1).view(*tasks.support.shape[:2], -1)
            return named(tasks, answers_of(self.query_directions, tasks, vectors))

    def __str__(self) -> str:
        return f"prototypes ({self.classify}{in_views(self.views)})"


def prototype_method(
    base: BaseNetwork, phi: Float[Tensor, "row location dim"], pooling: InferenceConfig
) -> PrototypeMethod:
    """Prototypes with the learned tau, from phi of all the views that are averaged."""
    classify = prototype_classifier(base.pooling, base.tau, pooling)
    return PrototypeMethod(phi, classify, views=pooling.support_views)
