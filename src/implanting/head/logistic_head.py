"""Fitting the head: logistic regression on the supports, and what it says of supports that it has not seen.

Features are centred on the classes of the task and scaled to unit mean square, so that one penalty serves tasks of any
domain. The folds of cross-fitting are fitted together, from inner products alone: their cost does not depend on the
number of dims.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from implanting.fewshot import NEVER, deal, fit_dual, logistic_regression, rank_in_class, sharpness

FOLDS = 5
"""Parts into which the images of each class are dealt, each held out in turn."""

FOLD_STEPS = 30
"""Steps of a fold's fit; more change no answer (`docs/lab-log.md`)."""

MOST_TRIED, MOST_HELD = 300, 1000
"""Images that folds are fitted to at most: while reading weights are compared, and with the weights chosen."""

LEAST_SPREAD = 1e-5
"""Mean square of centred features, against their length, below which all images count as the same one."""

GROWTH = 0.5
"""The largest score over distance grows by this power of the number of supports: 0.3 to 0.7 from 1 to 20 images per
class in three domains (`docs/lab-log.md`). A fold has fewer of them than the whole task."""

NEAREST = 1e-3
"""Distance from the centre below which an image counts as no nearer."""

Vectors = Float[Tensor, "image dim"]


@dataclass(frozen=True)
class Head:
    """A score per class, linear in the joined readings of an image."""

    class_weights: Float[Tensor, "way dim"]
    bias: Float[Tensor, " way"]
    centre: Float[Tensor, " dim"]
    """The mean of the classes."""
    spread: Float[Tensor, " dim"]
    """Of each dim in distances from the centre: its reading's weight over the length of a usual support, times the
    score that is usual with so many classes."""

    def scores(self, vectors: Float[Tensor, "*image dim"]) -> Float[Tensor, "*image way"]:
        """Logits before calibration; over classes their sum is zero."""
        return F.linear(vectors, self.class_weights, self.bias)

    def open_set_score(
        self, vectors: Float[Tensor, "*image dim"], scores: Float[Tensor, "*image way"]
    ) -> Float[Tensor, "*image"]:
        """How little an image fits any class: minus the largest score over its distance from the centre."""
        return open_set_score(scores, ((vectors - self.centre) * self.spread).norm(dim=-1))


def open_set_score(scores: Float[Tensor, "*image way"], distances: Float[Tensor, "*image"]) -> Float[Tensor, "*image"]:
    """Minus the largest score over the distance from the centre: what is far from all classes scores high by chance."""
    return -scores.amax(-1) / distances.clamp_min(NEAREST)


def score_of_equals(way: int, penalty: float) -> float:
    """The score of a support for its class where each class has one and all are equally far from each other.

    The scores of a head grow with the number of classes as this one does, at a penalty of 0.03 from 1.8 with two to
    3.9 with ten and 8.1 with a thousand, so open-set scores over it are alike in tasks of any number. At the optimum
    the penalty times the score is what the class's probability p lacks: (1 - p) way / (way - 1).
    """
    low, high = 0.0, 1 / penalty * way / (way - 1)
    for _ in range(60):
        score = (low + high) / 2
        others = (way - 1) * math.exp(-score * way / (way - 1))
        lacking = others / (1 + others) * way / (way - 1)
        low, high = (score, high) if lacking > penalty * score else (low, score)
    return (low + high) / 2


@dataclass(frozen=True)
class HeldOutScores:
    """What heads say of supports that they were not fitted to; nan of those whose class has no other image."""

    scores: Float[Tensor, "image way"]
    distances: Float[Tensor, " image"]
    """From the centre, in lengths of usual supports times their usual score."""
    growth: float
    """How many times as large the scores of a head are that is fitted to all supports."""

    def open_set_scores(self) -> Float[Tensor, " image"]:
        """How little each image would fit any class by a head that has as many supports as the whole one."""
        return self.growth * open_set_score(self.scores, self.distances)


@dataclass(frozen=True)
class Fitted:
    """A head, and how it does on images that it has not seen."""

    head: Head
    reading_weights: tuple[float, ...]
    held_out: HeldOutScores


def fit_head(
    supports: Vectors,
    queries: Vectors,
    labels: Int[Tensor, " image"],
    dims: Sequence[int],
    candidates: Sequence[Sequence[float]],
    penalty: float,
) -> Fitted:
    """Fit a head, choosing among weights of the readings by what heads say of held-out supports.

    `supports` are joined readings of `dims` numbers each, averaged over views; `queries` are those of the image itself,
    by which a held-out support is asked. The first candidate is the rule.
    """
    turn = deal(labels, FOLDS)
    tried = _evenly(labels, MOST_TRIED)
    nothing = supports.new_full((len(labels), int(labels.max()) + 1), torch.nan)
    chosen, held_out = 0, HeldOutScores(nothing, nothing[:, 0], 1.0)
    if bool((turn != NEVER).any()):
        products = Products.of(supports[tried], queries, dims)
        if len(candidates) > 1:
            found = [_cross_fit(products, tried, labels, turn, weights, penalty) for weights in candidates]
            chosen = _better([one.scores[turn != NEVER] for one in found], labels[turn != NEVER])
            held_out = found[chosen]
        if len(candidates) == 1 or len(labels) > MOST_TRIED:
            kept = _evenly(labels, MOST_HELD)
            products = Products.of(supports[kept], queries, dims)
            held_out = _cross_fit(products, kept, labels, turn, candidates[chosen], penalty)
    weights = tuple(candidates[chosen])
    return Fitted(_fit(supports, labels, dims, weights, penalty), weights, held_out)


def _fit(
    supports: Vectors, labels: Int[Tensor, " image"], dims: Sequence[int], weights: Sequence[float], penalty: float
) -> Head:
    """Fit to all supports."""
    spread = torch.cat([torch.full((dim,), weight) for dim, weight in zip(dims, weights, strict=True)])
    shares = _shares(labels, torch.ones(1, len(labels), dtype=torch.bool))[0]
    centre = shares @ supports
    centred = (supports - centre) * spread
    length = (shares @ centred.square().sum(1)).clamp_min(_least(weights)).sqrt()
    classifier = logistic_regression((centred / length)[None], labels[None], penalty, intercept=False)
    class_weights = classifier.class_weights[0] * spread / length
    class_weights = class_weights.contiguous()  # as a file has it: sums round by the order of numbers in memory
    scale = score_of_equals(len(labels.bincount()), penalty) / length
    return Head(class_weights, -(class_weights @ centre), centre, scale * spread)


@dataclass(frozen=True)
class Products:
    """Inner products of each reading, of which those of joined readings are sums."""

    own: list[Float[Tensor, "support support"]]
    asked: list[Float[Tensor, "query support"]]
    squares: list[Float[Tensor, " query"]]

    @classmethod
    def of(cls, supports: Float[Tensor, "support dim"], queries: Vectors, dims: Sequence[int]) -> "Products":
        """Of supports with supports, of queries with supports, and of queries with themselves."""
        own, other = supports.split(list(dims), 1), queries.split(list(dims), 1)
        return cls(
            [part @ part.T for part in own],
            [asked @ part.T for asked, part in zip(other, own, strict=True)],
            [asked.square().sum(1) for asked in other],
        )

    def joined(self, weights: Sequence[float]) -> tuple[Tensor, Tensor, Tensor]:
        """Of the readings joined with these weights."""
        own, asked, squares = (
            torch.stack([weight**2 * part for weight, part in zip(weights, parts, strict=True)]).sum(0)
            for parts in (self.own, self.asked, self.squares)
        )
        return own, asked, squares


def _cross_fit(
    products: Products,
    fitted: Int[Tensor, " fitted"],
    labels: Int[Tensor, " image"],
    turn: Int[Tensor, " image"],
    weights: Sequence[float],
    penalty: float,
) -> HeldOutScores:
    """What a head says of every image that was fitted without its fold, to some of the images."""
    own, asked, squares = products.joined(weights)
    folds = int(turn.max()) + 1
    kept = turn[fitted] != torch.arange(folds)[:, None]
    shares = _shares(labels[fitted], kept)
    own_means, asked_means = shares @ own, shares @ asked.T
    total = (shares * own_means).sum(1)[:, None, None]
    centred = own - own_means[:, None] - own_means[:, :, None] + total
    length = (shares * centred.diagonal(dim1=1, dim2=2)).sum(1).clamp_min(_least(weights))[:, None, None]
    truth = F.one_hot(labels[fitted], int(labels.max()) + 1).to(own.dtype).expand(folds, -1, -1)
    coefficients, _ = fit_dual(centred / length, truth, penalty, kept=kept, steps=FOLD_STEPS)
    scores = own.new_full((len(labels), truth.shape[2]), torch.nan)
    distances, equals = torch.full_like(squares, torch.nan), score_of_equals(truth.shape[2], penalty)
    for fold in range(folds):
        held = turn == fold
        centred_products = asked[held] - own_means[fold] - asked_means[fold, held, None] + total[fold]
        scores[held] = centred_products / length[fold] @ coefficients[fold]
        from_centre = squares[held] - 2 * asked_means[fold, held] + total[fold].squeeze()
        distances[held] = equals * (from_centre / length[fold].squeeze()).clamp_min(0).sqrt()
    growth = (len(fitted) * folds / int(kept.sum())) ** GROWTH
    return HeldOutScores(scores, distances, growth)


def _least(weights: Sequence[float]) -> float:
    return LEAST_SPREAD * sum(weight**2 for weight in weights)


def _shares(labels: Int[Tensor, " image"], kept: Bool[Tensor, "fold image"]) -> Float[Tensor, "fold image"]:
    """The part of each image in the mean: classes count alike, however many images they have."""
    members = F.one_hot(labels).float()
    counts = kept.float() @ members
    present = (counts > 0).sum(1, keepdim=True)
    return torch.where(kept, 1 / (counts @ members.T * present), 0.0)


def _evenly(labels: Int[Tensor, " image"], most: int) -> Int[Tensor, " chosen"]:
    """The first images of every class, as many of each as there is room for, and two in any case."""
    ranks, room = rank_in_class(labels), max(2, most // (int(labels.max()) + 1))
    return torch.arange(len(labels)) if len(labels) <= most else torch.nonzero(ranks < room).flatten()


def _better(scores: Sequence[Float[Tensor, "held way"]], labels: Int[Tensor, " held"]) -> int:
    """The candidate of largest held-out likelihood, each at its best sharpness; the first one within doubt.

    Another one than the first must be better by more than a standard error of the paired difference.
    """
    likelihoods = []
    for asked in scores:
        sharpened = (sharpness(asked.double().log_softmax(-1), labels) * asked).log_softmax(-1)
        likelihoods.append(sharpened.gather(1, labels[:, None]).squeeze(1))
    gains = torch.stack(likelihoods) - likelihoods[0]
    best = int(gains.mean(1).argmax())
    error = float(gains[best].std()) / len(labels) ** 0.5
    return best if gains[best].mean() > error else 0
