"""Fitting tasks: prototypes, with or without implants, and an estimate of how well they do.

Cross-fitting estimates from a task's supports alone how well its classifier would do on images it has not seen.
The leave-one-out loss would be too optimistic, since implants are trained on it. Here the images of each class are
divided into folds, and each image is scored by prototypes, or by implants and their prototypes, that were fitted to the
other folds: neither the image nor any of its views was seen, not even by batch norm. The folds of a task are fitted as
further tasks of the batch.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from implanting.base import BaseNetwork
from implanting.config import ImplantConfig, InferenceConfig
from implanting.dense_classification import (
    PrototypeClassifier,
    probabilities,
    prototype_classifier,
    prototypes,
    scaled_cosine,
)
from implanting.errors import ConfigError, DataError
from implanting.fewshot import NEVER, assign_folds
from implanting.implants.activations import BaseMaps, PooledMaps, Supports
from implanting.implants.adaptation import adapt
from implanting.implants.share import FOLDS, SHARES, USUAL, can_choose, chosen_shares, ratio_of, weight_for
from implanting.implants.stream import Implants, joined
from implanting.networks import Tail
from implanting.runtime import in_threads, shares

FEWEST = 8
"""Number of tasks, or folds of tasks, adapted together if maps are large."""


@dataclass(frozen=True)
class Fitted:
    """The classifiers of tasks: prototypes, and the implants whose channels they and all queries have."""

    prototypes: Float[Tensor, "task way wide_dim"]
    classify: PrototypeClassifier
    implants: Implants | None = None

    @torch.no_grad()
    def scores(self, base_maps: BaseMaps, phi: PooledMaps) -> Float[Tensor, "task image asked way"]:
        """s_tau of each task's queries with its prototypes, at each location of the query."""
        return self.scores_of(widened(self.implants, base_maps, phi))

    def scores_of(self, wide: PooledMaps) -> Float[Tensor, "task image asked way"]:
        """The same for queries that already have the implants' channels."""
        return scaled_cosine(self.classify.asked(wide), self.prototypes[:, None], self.classify.tau)

    def probabilities(self, base_maps: BaseMaps, phi: PooledMaps) -> Float[Tensor, "task image way"]:
        """The probability of each class for each task's queries."""
        return probabilities(self.scores(base_maps, phi))


@torch.no_grad()
def widened(implants: Implants | None, base_maps: BaseMaps, phi: PooledMaps) -> PooledMaps:
    """phi_wide, or phi if there are no implants."""
    return phi if implants is None else torch.cat([phi, implants(base_maps)], dim=-1)


@dataclass(frozen=True)
class Fitting:
    """How the supports of tasks become classifiers."""

    tail: Tail
    by_prototypes: PrototypeClassifier
    config: ImplantConfig
    support_views: int = 1
    """Number of views of each support that a prototype averages."""

    @property
    def by_implants(self) -> PrototypeClassifier:
        """The classifier used with implants: the same poolings, with the fixed tau of stage 2."""
        return replace(self.by_prototypes, tau=self.config.implant_tau)

    @property
    def views(self) -> int:
        """Number of views of each support that are read."""
        return max(self.support_views, self.config.adapt_views)

    def fit_prototypes(self, supports: Supports) -> Fitted:
        """Prototypes of the base network's own features."""
        return self.with_prototypes(None, supports, self.by_prototypes)

    def fit_implants(self, supports: Supports, generators: list[Generator]) -> Fitted:
        """Train fresh implants for each task, then make prototypes of the widened features."""
        return self.with_prototypes(self.adapted(supports, generators), supports, self.by_implants)

    def adapted(self, supports: Supports, generators: list[Generator]) -> Implants:
        """Fresh implants for each task, trained on its supports and given the share that they are to have."""
        before = [_copy_of(generator) for generator in generators]
        implants = self.trained(supports, generators)
        if self.config.implant_share == 1:
            return implants
        return self.with_shares(implants, supports, self.shares(supports, before))

    def with_shares(self, implants: Implants, supports: Supports, shares: Float[Tensor, " task"]) -> Implants:
        """The implants with these shares of the squared length of the supports' features, or less."""
        seen = supports.first_views(self.config.adapt_views)
        ratio = ratio_of(implants, seen, self.config.adapt_support_pooling)
        return replace(implants, weight=weight_for(shares, ratio))

    def shares(self, supports: Supports, generators: list[Generator]) -> Float[Tensor, " task"]:
        """The share of each task's implants: the configured one, or one chosen on held-out supports."""
        share = self.config.implant_share
        if share is not None or not can_choose(supports.labels):
            return torch.full((len(supports),), share or USUAL, dtype=supports.phi.dtype)
        every = torch.arange(len(supports))
        fold_of = assign_folds(supports.labels, FOLDS)
        found = supports.phi.new_zeros(len(supports), len(SHARES))
        for fold in range(FOLDS):
            kept, held = (
                supports.select(every, chosen.nonzero().flatten().expand(len(supports), -1))
                for chosen in (fold_of != fold, fold_of == fold)
            )
            implants = self.trained(kept, [_copy_of(generator) for generator in generators])
            found += self._log_likelihoods(implants, kept, held)
        return chosen_shares(found)

    def _log_likelihoods(self, implants: Implants, kept: Supports, held: Supports) -> Float[Tensor, "task share"]:
        """How likely held-out supports are, with each of `SHARES`, by implants that were trained on the others."""

        def of_share(share: float) -> Float[Tensor, " task"]:
            scaled = self.with_shares(implants, kept, kept.phi.new_full((len(kept),), share))
            fitted = self.with_prototypes(scaled, kept, self.by_implants)
            said = fitted.probabilities(queries.base_maps, queries.phi)
            own = held.labels[:, None].expand(*said.shape[:2], 1)
            return said.gather(2, own).clamp_min(1e-12).log().sum((1, 2))

        queries = held.first_views(1)
        return torch.stack([of_share(share) for share in SHARES], dim=1)

    def trained(self, supports: Supports, generators: list[Generator]) -> Implants:
        """Fresh implants for each task, trained on its supports; threads share the tasks."""
        seen = supports.first_views(self.config.adapt_views)

        def adapt_some(tasks: slice) -> Implants:
            return adapt(seen[tasks], self.tail, self.config, generators[tasks])

        return joined(in_threads(adapt_some, shares(len(seen))))

    def with_prototypes(self, implants: Implants | None, supports: Supports, classify: PrototypeClassifier) -> Fitted:
        """The classifiers of trained implants, or of none: computes the prototypes."""
        return Fitted(self.class_means(supports, implants, classify), classify, implants)

    def can_train(self, labels: Int[Tensor, " label"]) -> bool:
        """Whether implants can be trained on supports with these labels: leaving one out must leave another."""
        return self.config.adapt_views > 1 or int(labels.bincount().max()) > 1

    def class_means(
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
    """How tasks are fitted on this base; raises if it cannot have implants."""
    if base.pooling == "flatten":
        raise ConfigError("implants need a base trained with dense, gap or gmp; this one was trained with flatten")
    if base.tail is None:
        raise ConfigError(
            f"implants need a description of the last layers, which {base.name} has none of: set `implants` False, "
            "take a single network, or describe the layers of your own by tail=..."
        )
    classify = prototype_classifier(base.pooling, base.tau, pooling, base.mean_direction)
    return Fitting(base.tail, classify, config, pooling.support_views)


@dataclass(frozen=True)
class Scores:
    """Scores of each support image by classifiers that have not seen it; nan for images that are never held out."""

    probabilities: Float[Tensor, "task image way"]
    cosines: Float[Tensor, "task image way"]
    """Cosines with each prototype, averaged over locations: the scale on which "none of these" is decided."""


@dataclass(frozen=True)
class Folds:
    """Folds that keep equally many images of each class, so that they can be fitted together; images in class order."""

    kept: Int[Tensor, "fold kept"]
    held: Int[Tensor, "fold held"]


def group_folds(labels: Int[Tensor, " image"], fold_of: Int[Tensor, " image"]) -> list[Folds]:
    """The folds, grouped by how many images of each class they keep."""
    in_class_order = labels.argsort(stable=True)
    grouped: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}
    for fold in range(int(fold_of.max()) + 1):
        held = fold_of[in_class_order] == fold
        kept_images, held_images = in_class_order[~held], in_class_order[held]
        grouped.setdefault(tuple(labels[kept_images].tolist()), []).append((kept_images, held_images))
    return [Folds(*(torch.stack(images) for images in zip(*pairs, strict=True))) for pairs in grouped.values()]


def cross_fit_prototypes(supports: Supports, fitting: Fitting, together: int = FEWEST) -> Scores:
    """Scores of every support of every task by prototypes made without its fold."""

    def fit(kept: Supports, _: Int[Tensor, " chosen"]) -> Fitted:
        return fitting.fit_prototypes(kept)

    return _cross_fit(supports, fitting.config.decision_folds, fit, together)


def cross_fit_implants(
    supports: Supports, fitting: Fitting, generators: list[Generator], together: int = FEWEST
) -> Scores:
    """Scores of every support of every task by implants trained without its fold.

    Each fold's initial implants are those of its task, drawn from a copy of the task's generator.
    """

    def fit(kept: Supports, tasks: Int[Tensor, " chosen"]) -> Fitted | None:
        if not fitting.can_train(kept.labels):
            return None
        return fitting.fit_implants(kept, [_copy_of(generators[task]) for task in tasks.tolist()])

    return _cross_fit(supports, fitting.config.decision_folds, fit, together)


def _cross_fit(
    supports: Supports, folds: int, fit: Callable[[Supports, Int[Tensor, " chosen"]], Fitted | None], together: int
) -> Scores:
    """Held-out scores of every support of every task; at most `together` folds are fitted at once.

    `fit` makes classifiers from the kept images of some tasks, or returns None if there are too few.
    """
    fold_of = assign_folds(supports.labels, folds)
    if int(fold_of.max()) == NEVER:
        raise DataError("cross-fitting needs a class with two images or more; every class has one: add images")
    scores = _no_scores_yet(supports)
    for group in group_folds(supports.labels, fold_of):
        pairs = torch.cartesian_prod(torch.arange(len(supports)), torch.arange(len(group.kept)))
        for tasks, numbers in (chunk.unbind(1) for chunk in pairs.split(together)):
            kept, held = group.kept[numbers], group.held[numbers]
            fitted = fit(supports.select(tasks, kept), tasks)
            if fitted is not None:
                _write_scores(scores, (tasks[:, None], held), fitted, supports.select(tasks, held))
    return scores


def _no_scores_yet(supports: Supports) -> Scores:
    shape = (*supports.phi.shape[:1], len(supports.labels), int(supports.labels.max()) + 1)
    return Scores(torch.full(shape, torch.nan), torch.full(shape, torch.nan))


def _write_scores(scores: Scores, place: tuple[Tensor, Tensor], fitted: Fitted, held: Supports) -> None:
    """Write the scores of held-out images, which are classified like queries: in one view."""
    queries = held.first_views(1)
    found = fitted.scores(queries.base_maps, queries.phi)
    scores.probabilities[place] = probabilities(found)
    scores.cosines[place] = found.mean(2) / fitted.classify.tau


def _copy_of(generator: Generator) -> Generator:
    return Generator().set_state(generator.get_state())
