"""Cross-fitting: how well would a task's classifier do on images that it has not seen, told from its supports alone?

The leave-one-out loss is what implants are trained on, so it flatters them. Here the images of each class are dealt
into folds; an image is scored by prototypes, or by implants and their prototypes, that were fitted to the other folds:
neither it nor any of its views was seen, not even by batch norm. Folds of a task are further tasks of the batch.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from implanting.config import ImplantConfig
from implanting.dense_classification import probabilities
from implanting.errors import DataError
from implanting.implants.by_implants import FEWEST
from implanting.implants.fitting import Fitted, Fitting
from implanting.implants.supports import Supports

NEVER = -1
"""The fold of an image that is never held out: its class has no other."""


@dataclass(frozen=True)
class Scores:
    """What one method says of each support image that it has not seen; nan of an image that is never held out."""

    probabilities: Float[Tensor, "task image way"]
    cosines: Float[Tensor, "task image way"]
    """With each prototype, averaged over the query's locations: the scale on which "none of these" is told."""


@dataclass(frozen=True)
class HeldOut:
    """Held-out scores of every support image, by prototypes and by implants."""

    labels: Int[Tensor, " image"]
    prototypes: Scores
    implants: Scores

    def advantage(self) -> Float[Tensor, "task image"]:
        """By how much implants raise the log-probability of each image's class; nan where they could not be asked."""
        own = self.labels[:, None].expand(*self.prototypes.probabilities.shape[:2], 1)
        by_implants, by_prototypes = (
            scores.probabilities.gather(2, own).squeeze(2).clamp_min(1e-12).log()
            for scores in (self.implants, self.prototypes)
        )
        return by_implants - by_prototypes


def deal(labels: Int[Tensor, " image"], folds: int) -> Int[Tensor, " image"]:
    """The fold in which each image is held out: the images of a class in turn, so that each fold has one of it or more.

    A class of one image is never held out. A class never loses all its images, as there are two folds or more.
    """
    sizes = labels.bincount()
    folds = min(folds, int(sizes.max()))
    turn = torch.full_like(labels, NEVER)
    for way, size in enumerate(sizes.tolist()):
        if size > 1:
            turn[labels == way] = torch.arange(size) % folds
    return turn


@dataclass(frozen=True)
class Folds:
    """Folds whose kept images are of the same classes, so that they are fitted together; images are in class order."""

    kept: Int[Tensor, "fold kept"]
    held: Int[Tensor, "fold held"]


def alike(labels: Int[Tensor, " image"], turn: Int[Tensor, " image"]) -> list[Folds]:
    """The folds, grouped by how many images of each class they keep."""
    in_class_order = labels.argsort(stable=True)
    grouped: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}
    for fold in range(int(turn.max()) + 1):
        held = turn[in_class_order] == fold
        kept_images, held_images = in_class_order[~held], in_class_order[held]
        grouped.setdefault(tuple(labels[kept_images].tolist()), []).append((kept_images, held_images))
    return [Folds(*(torch.stack(images) for images in zip(*pairs, strict=True))) for pairs in grouped.values()]


def cross_fit_prototypes(supports: Supports, fitting: Fitting, together: int = FEWEST) -> Scores:
    """What prototypes say of every support of every task, made without its fold."""

    def fit(kept: Supports, _: Int[Tensor, " some"]) -> Fitted:
        return fitting.fit_prototypes(kept)

    return cross_fit(supports, fitting.config.decision_folds, fit, together)


def cross_fit_implants(
    supports: Supports, fitting: Fitting, generators: list[Generator], together: int = FEWEST
) -> Scores:
    """What implants say of every support of every task, trained without its fold.

    Each fold's implants begin as the implants of its task would, drawn from the task's generator, which stays as it is.
    """

    def fit(kept: Supports, tasks: Int[Tensor, " some"]) -> Fitted | None:
        if not fitting.can_train(kept.labels):
            return None
        return fitting.fit_implants(kept, [copy_of(generators[task]) for task in tasks.tolist()])

    return cross_fit(supports, fitting.config.decision_folds, fit, together)


def cross_fit(
    supports: Supports, folds: int, fit: Callable[[Supports, Int[Tensor, " some"]], Fitted | None], together: int
) -> Scores:
    """Held-out scores of every support of every task; at most `together` folds are fitted at once.

    `fit` makes classifiers of the images that some tasks keep, or None where these are too few.
    """
    turn = deal(supports.labels, folds)
    if int(turn.max()) == NEVER:
        raise DataError("cross-fitting needs a class with two images or more; every class has one: add images")
    scores = nothing_said(supports)
    for alike_folds in alike(supports.labels, turn):
        pairs = torch.cartesian_prod(torch.arange(len(supports)), torch.arange(len(alike_folds.kept)))
        for tasks, numbers in (chunk.unbind(1) for chunk in pairs.split(together)):
            kept, held = alike_folds.kept[numbers], alike_folds.held[numbers]
            fitted = fit(supports.some(tasks, kept), tasks)
            if fitted is not None:
                score(scores, (tasks[:, None], held), fitted, supports.some(tasks, held))
    return scores


def nothing_said(supports: Supports) -> Scores:
    """Scores before any image was held out."""
    shape = (*supports.phi.shape[:1], len(supports.labels), int(supports.labels.max()) + 1)
    return Scores(torch.full(shape, torch.nan), torch.full(shape, torch.nan))


def score(scores: Scores, place: tuple[Tensor, Tensor], fitted: Fitted, held: Supports) -> None:
    """Write down what a classifier says of held-out images, which it meets as it meets queries: in one view."""
    queries = held.first_views(1)
    found = fitted.scores(queries.base_maps, queries.phi)
    scores.probabilities[place] = probabilities(found)
    scores.cosines[place] = found.mean(2) / fitted.classify.tau


def copy_of(generator: Generator) -> Generator:
    """A generator that draws what this one would, and leaves it as it is."""
    return Generator().set_state(generator.get_state())


def implants_help(held_out: HeldOut, config: ImplantConfig) -> Bool[Tensor, " task"]:
    """Whether to use implants in each task, told from images that they were not trained on.

    Implants are the rule, as they help on average: a task does without them only where its held-out supports speak
    against them, by more than `decision_margin` standard errors of the mean advantage.
    """
    advantage = held_out.advantage().double()
    count = advantage.isfinite().sum(1)
    mean = advantage.nanmean(1)
    deviation = ((advantage - mean[:, None]).square().nansum(1) / (count - 1).clamp_min(1)).sqrt()
    against = mean + config.decision_margin * deviation / count.clamp_min(1).sqrt() < 0
    return ~against
