"""The supports of tasks, and the classifiers that they become: prototypes alone, or with implants.

Tasks are the first axis, and their classes may be uneven. One task is a batch of one: a user's classifier and the
evaluation of thousands of tasks are fitted here alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Generator, Tensor

from implanting.adapt import adapt, queries_of
from implanting.base import BaseNetwork
from implanting.config import ImplantConfig, InferenceConfig
from implanting.errors import ConfigError
from implanting.implants import BaseMaps, Implants, PooledMaps, joined
from implanting.inference import PrototypeClassifier, prototype_classifier
from implanting.similarity import pool, probabilities, scaled_cosine
from implanting.tail import Sizes, Tail
from implanting.threads import in_threads, shares


@dataclass(frozen=True)
class Supports:
    """Base activations of the support images of tasks; view v of image i stands at i * views + v."""

    base_maps: BaseMaps
    phi: PooledMaps
    labels: Int[Tensor, " label"]
    """The class of each image, the same in all of these tasks."""
    views: int = 1

    @classmethod
    def of_one_task(
        cls,
        base_maps: Sequence[Float[Tensor, "image _ _"]],
        phi: Float[Tensor, "image pooled _"],
        labels: Int[Tensor, " label"],
        views: int = 1,
    ) -> "Supports":
        """A task by itself."""
        return cls([maps[None] for maps in base_maps], phi[None], labels, views)

    def __len__(self) -> int:
        return len(self.phi)

    @cached_property
    def groups(self) -> Int[Tensor, " image"]:
        """Which image each row is a view of."""
        return torch.arange(len(self.labels)).repeat_interleave(self.views)

    @property
    def row_labels(self) -> Int[Tensor, " image"]:
        """The class of each row."""
        return self.labels[self.groups]

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


@dataclass(frozen=True)
class Fitted:
    """The classifiers of tasks: prototypes, and the implants by which they and all queries are widened."""

    prototypes: Float[Tensor, "task way wide_dim"]
    classify: PrototypeClassifier
    implants: Implants | None = None

    @torch.no_grad()
    def scores(self, base_maps: BaseMaps, phi: PooledMaps) -> Float[Tensor, "task image asked way"]:
        """s_tau of queries of each task with its prototypes, at each of the query's locations."""
        return self.scores_of(widened(self.implants, base_maps, phi))

    def scores_of(self, wide: PooledMaps) -> Float[Tensor, "task image asked way"]:
        """The same, of queries that are widened already."""
        return scaled_cosine(pool(wide, self.classify.query_pooling), self.prototypes[:, None], self.classify.tau)

    def probabilities(self, base_maps: BaseMaps, phi: PooledMaps) -> Float[Tensor, "task image way"]:
        """The probability of each class for queries of each task."""
        return probabilities(self.scores(base_maps, phi))


@torch.no_grad()
def widened(implants: Implants | None, base_maps: BaseMaps, phi: PooledMaps) -> PooledMaps:
    """phi_wide, or phi where there are no implants."""
    return phi if implants is None else torch.cat([phi, implants(base_maps)], dim=-1)


@dataclass(frozen=True)
class Fitting:
    """How the supports of tasks become classifiers."""

    network: str
    """The name of the base network."""
    tail: Tail | None
    sizes: Sizes
    """Rows and columns of the base maps."""
    by_prototypes: PrototypeClassifier
    by_implants: PrototypeClassifier
    config: ImplantConfig
    support_views: int = 1
    """Views of each support that a prototype averages."""

    @property
    def views(self) -> int:
        """Views of each support that are read."""
        return max(self.support_views, self.config.adapt_views)

    def prototypes(self, supports: Supports) -> Fitted:
        """Prototypes of the base network's own features."""
        return self.fitted(supports, None, self.by_prototypes)

    def implants(self, supports: Supports, generators: list[Generator]) -> Fitted:
        """Implants, a fresh set for each task, then prototypes of the widened features."""
        return self.fitted(supports, self.adapted(supports, generators), self.by_implants)

    def adapted(self, supports: Supports, generators: list[Generator]) -> Implants:
        """Implants, a fresh set for each task, trained on its supports; each thread trains those of its share."""
        seen = supports.first_views(self.config.adapt_views)
        tail, labels, groups = self.require_implants(), seen.row_labels, seen.groups

        def share(tasks: slice) -> Implants:
            base_maps, some = [maps[tasks] for maps in seen.base_maps], generators[tasks]
            return adapt(base_maps, seen.phi[tasks], labels, tail, self.sizes, self.config, some, groups)

        return joined(in_threads(share, shares(len(seen))))

    def fitted(self, supports: Supports, implants: Implants | None, classify: PrototypeClassifier) -> Fitted:
        """Prototypes of features that implants have widened, if there are any, for one way to classify."""
        return Fitted(self.means(supports, implants, classify), classify, implants)

    def require_implants(self) -> Tail:
        """The tail, or an error that says why there can be no implants."""
        if self.by_prototypes.support_pooling == "flatten":
            raise ConfigError("implants need a base trained with dense, gap or gmp; this one was trained with flatten")
        if self.tail is None:
            raise ConfigError(f"implants need to know the last layers of {self.network}: describe them by tail=...")
        return self.tail

    def can_train(self, labels: Int[Tensor, " label"]) -> bool:
        """Whether implants can be trained on supports of these classes: leave-one-out must leave something."""
        views = self.config.adapt_views
        queried, _ = queries_of(labels.repeat_interleave(views), torch.arange(len(labels)).repeat_interleave(views))
        return bool(queried.any())

    def means(
        self, supports: Supports, implants: Implants | None, classify: PrototypeClassifier
    ) -> Float[Tensor, "task way wide_dim"]:
        """The plain mean of each class's pooled supports (eq. proto), over all their views."""
        averaged = supports.first_views(self.support_views)
        vectors = pool(widened(implants, averaged.base_maps, averaged.phi), classify.support_pooling).squeeze(2)
        membership = F.one_hot(averaged.row_labels).to(vectors.dtype)
        return (membership / membership.sum(0)).mT @ vectors


def fitting_of(base: BaseNetwork, sizes: Sizes, pooling: InferenceConfig, config: ImplantConfig) -> Fitting:
    """How tasks are fitted on a base: prototypes with the learned tau, implants with the fixed tau of stage 2."""
    return Fitting(
        network=base.name,
        tail=base.tail,
        sizes=sizes,
        by_prototypes=prototype_classifier(base.pooling, base.tau, pooling),
        by_implants=prototype_classifier(base.pooling, config.implant_tau, pooling),
        config=config,
        support_views=pooling.support_views,
    )
