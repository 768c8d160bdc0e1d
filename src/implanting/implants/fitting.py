"""The classifiers that supports become: prototypes alone, or with implants."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from implanting.base import BaseNetwork
from implanting.config import ImplantConfig, InferenceConfig
from implanting.dense_classification import (
    PrototypeClassifier,
    pool,
    probabilities,
    prototype_classifier,
    prototypes,
    scaled_cosine,
)
from implanting.errors import ConfigError
from implanting.implants.adaptation import adapt
from implanting.implants.stream import Implants, joined
from implanting.implants.supports import BaseMaps, PooledMaps, Supports
from implanting.networks import Tail
from implanting.runtime import in_threads, shares


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

    tail: Tail
    by_prototypes: PrototypeClassifier
    config: ImplantConfig
    support_views: int = 1
    """Views of each support that a prototype averages."""

    @property
    def by_implants(self) -> PrototypeClassifier:
        """The same with the fixed tau of stage 2."""
        return replace(self.by_prototypes, tau=self.config.implant_tau)

    @property
    def views(self) -> int:
        """Views of each support that are read."""
        return max(self.support_views, self.config.adapt_views)

    def fit_prototypes(self, supports: Supports) -> Fitted:
        """Prototypes of the base network's own features."""
        return self.around(None, supports, self.by_prototypes)

    def fit_implants(self, supports: Supports, generators: list[Generator]) -> Fitted:
        """Implants, a fresh set for each task, then prototypes of the widened features."""
        return self.around(self.adapted(supports, generators), supports, self.by_implants)

    def adapted(self, supports: Supports, generators: list[Generator]) -> Implants:
        """Implants, a fresh set for each task, trained on its supports; each thread trains those of its share."""
        seen = supports.first_views(self.config.adapt_views)

        def share(tasks: slice) -> Implants:
            return adapt(seen[tasks], self.tail, self.config, generators[tasks])

        return joined(in_threads(share, shares(len(seen))))

    def around(self, implants: Implants | None, supports: Supports, classify: PrototypeClassifier) -> Fitted:
        """Classifiers of implants that are trained, or of none: what is left to make are the prototypes."""
        return Fitted(self.means(supports, implants, classify), classify, implants)

    def can_train(self, labels: Int[Tensor, " label"]) -> bool:
        """Whether implants can be trained on supports of these classes: leave-one-out must leave something."""
        return self.config.adapt_views > 1 or int(labels.bincount().max()) > 1

    def means(
        self, supports: Supports, implants: Implants | None, classify: PrototypeClassifier
    ) -> Float[Tensor, "task way wide_dim"]:
        """The plain mean of each class's pooled supports (Eq. 1), over all their views."""
        averaged = supports.first_views(self.support_views)
        vectors = classify.vectors(widened(implants, averaged.base_maps, averaged.phi))
        tasks, images, _ = vectors.shape
        rows = averaged.row_labels.argsort(stable=True) + images * torch.arange(tasks)[:, None]
        shots = averaged.row_labels.bincount().repeat(tasks)
        return prototypes(vectors.flatten(0, 1), rows.flatten(), shots).unflatten(0, (tasks, -1))


def fitting_of(base: BaseNetwork, pooling: InferenceConfig, config: ImplantConfig) -> Fitting:
    """How tasks are fitted on a base, or an error that says why it can have no implants."""
    if base.pooling == "flatten":
        raise ConfigError("implants need a base trained with dense, gap or gmp; this one was trained with flatten")
    if base.tail is None:
        raise ConfigError(f"implants need to know the last layers of {base.name}: describe them by tail=...")
    classify = prototype_classifier(base.pooling, base.tau, pooling)
    return Fitting(base.tail, classify, config, pooling.support_views)
