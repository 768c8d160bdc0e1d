"""Fit the head: logistic regression on the supports, with cross-fitted scores of held-out supports.

Features are centred on the classes of the task and scaled to unit mean square, so that one penalty suits tasks of any
domain. The folds of cross-fitting are fitted together, from inner products alone, so their cost does not depend on the
number of dimensions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from implanting.fewshot import NEVER, assign_folds, fit_dual, logistic_regression, rank_in_class, sharpness

FOLDS = 5
"""Number of parts into which the images of each class are divided, each held out in turn."""

FOLD_STEPS = 30
"""Steps of a fold's fit; more steps change no answer (`docs/lab-log.md`)."""

MOST_TRIED, MOST_HELD = 300, 1000
"""The largest number of images that folds are fitted to: while comparing reading weights, and with the chosen ones."""

LEAST_SPREAD = 1e-5
"""If the mean square of the centred features, relative to their length, is below this, all images count as equal."""

GROWTH = 0.5
"""The ratio of the largest score to the distance grows as this power of the number of supports (measured: 0.3 to 0.7,
from 1 to 20 images per class in three domains, `docs/lab-log.md`). It corrects for folds having fewer supports than the
whole task."""

NEAREST = 1e-3
"""Smaller distances from the centre are raised to this value."""

Vectors = Float[Tensor, "image dim"]


@dataclass(frozen=True)
class Head:
    """A linear classifier: one score per class from the joined readings of an image."""

    class_weights: Float[Tensor, "way dim"]
    bias: Float[Tensor, " way"]
    centre: Float[Tensor, " dim"]
    """The mean of the classes."""
    spread: Float[Tensor, " dim"]
    """Factor of each dimension in distances from the centre: the weight of its reading divided by the length of a
    typical support, times the typical score for this number of classes."""

    def scores(self, vectors: Float[Tensor, "*image dim"]) -> Float[Tensor, "*image way"]:
        """Compute logits before calibration; they sum to zero over the classes."""
        return F.linear(vectors, self.class_weights, self.bias)

    def open_set_score(
        self, vectors: Float[Tensor, "*image dim"], scores: Float[Tensor, "*image way"]
    ) -> Float[Tensor, "*image"]:
        """Compute how poorly an image fits every class: minus the ratio of its largest score to its distance."""
        return open_set_score(scores, ((vectors - self.centre) * self.spread).norm(dim=-1))


def open_set_score(scores: Float[Tensor, "*image way"], distances: Float[Tensor, "*image"]) -> Float[Tensor, "*image"]:
    """Minus the ratio of the largest score to the distance from the centre, as distant images score high by chance."""
    return -scores.amax(-1) / distances.clamp_min(NEAREST)


def score_of_equals(way: int, penalty: float) -> float:
    """The score of a support for its own class if every class has one support and all are equally distant.

    The scores of a head grow with the number of classes as this one does: at a penalty of 0.03, 1.8 for two classes,
    3.9 for ten, 8.1 for a thousand. Dividing by it makes open-set scores comparable across numbers of classes. With p
    the probability of the class, at the optimum penalty * score = (1 - p) way / (way - 1).
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
    """Scores of supports by heads that were not fitted to them; nan for a support that is alone in its class."""

    scores: Float[Tensor, "image way"]
    distances: Float[Tensor, " image"]
    """Distances from the centre, scaled by `Head.spread`."""
    growth: float
    """The factor by which the scores of a head fitted to all supports are larger."""

    def open_set_scores(self) -> Float[Tensor, " image"]:
        """Estimate the open-set score each image would get from a head with as many supports as the final one."""
        return self.growth * open_set_score(self.scores, self.distances)


@dataclass(frozen=True)
class Fitted:
    """A head, and its cross-fitted scores of held-out supports."""

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
    """Fit a head, choosing the weights of the readings by the likelihood of held-out supports.

    `supports` are joined readings, with `dims` numbers each, averaged over views. `queries` are the readings of the
    unchanged images, used when a support is held out. The first candidate is the default.
    """
    turn = assign_folds(labels, FOLDS)
    nothing = supports.new_full((len(labels), int(labels.max()) + 1), torch.nan)
    chosen, held_out = 0, HeldOutScores(nothing, nothing[:, 0], 1.0)
    if bool((turn != NEVER).any()):
        about = supports.mean(0)  # changes no result, but products of nearly equal vectors would be lost in rounding
        near, asked = supports - about, queries - about
        if len(candidates) > 1:
            tried = _some_classes(labels)
            chosen, held_out = _choose(near[tried], asked[tried], labels[tried], dims, candidates, penalty)
        if len(candidates) == 1 or len(labels) > MOST_TRIED:
            kept = _evenly(labels, MOST_HELD)
            products = Products.of(near[kept], asked, dims)
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
    class_weights = class_weights.contiguous()  # as when loaded from a file: rounding depends on memory layout
    scale = score_of_equals(len(labels.bincount()), penalty) / length
    return Head(class_weights, -(class_weights @ centre), centre, scale * spread)


@dataclass(frozen=True)
class Products:
    """Inner products per reading; the inner products of joined readings are weighted sums of these."""

    own: list[Float[Tensor, "support support"]]
    asked: list[Float[Tensor, "query support"]]
    squares: list[Float[Tensor, " query"]]

    @classmethod
    def of(cls, supports: Float[Tensor, "support dim"], queries: Vectors, dims: Sequence[int]) -> "Products":
        """Compute the products of supports with supports, queries with supports, and each query with itself."""
        own, other = supports.split(list(dims), 1), queries.split(list(dims), 1)
        return cls(
            [part @ part.T for part in own],
            [asked @ part.T for asked, part in zip(other, own, strict=True)],
            [asked.square().sum(1) for asked in other],
        )

    def joined(self, weights: Sequence[float]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the inner products of the readings joined with these weights."""
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
    """Score every image with a head fitted without its fold, to at most some of the other images."""
    own, asked, squares = products.joined(weights)
    folds = int(turn.max()) + 1
    kept = turn[fitted] != torch.arange(folds)[:, None]
    shares = _shares(labels[fitted], kept)
    own_means, asked_means = shares @ own, shares @ asked.T
    total = (shares * own_means).sum(1)
    # each fold's own images first, as many as the largest fold has: images that it does not keep cost nothing
    places = kept.int().argsort(descending=True, stable=True, dim=1)[:, : int(kept.sum(1).max())]
    kept, means = kept.gather(1, places), own_means.gather(1, places)
    centred = own[places[:, :, None], places[:, None]] - means[:, None] - means[:, :, None] + total[:, None, None]
    length = (shares.gather(1, places) * centred.diagonal(dim1=1, dim2=2)).sum(1).clamp_min(_least(weights))
    truth = F.one_hot(labels[fitted], int(labels.max()) + 1).to(own.dtype)[places]
    coefficients, _ = fit_dual(centred / length[:, None, None], truth, penalty, kept=kept, steps=FOLD_STEPS)
    scores = own.new_full((len(labels), truth.shape[2]), torch.nan)
    distances, equals = torch.full_like(squares, torch.nan), score_of_equals(truth.shape[2], penalty)
    for fold in range(folds):
        held = torch.nonzero(turn == fold).flatten()
        about_centre = asked[held[:, None], places[fold]] - means[fold] - asked_means[fold, held, None] + total[fold]
        scores[held] = about_centre / length[fold] @ coefficients[fold]
        from_centre = squares[held] - 2 * asked_means[fold, held] + total[fold]
        distances[held] = equals * (from_centre / length[fold]).clamp_min(0).sqrt()
    growth = (len(fitted) * folds / int(kept.sum())) ** GROWTH
    return HeldOutScores(scores, distances, growth)


def _least(weights: Sequence[float]) -> float:
    return LEAST_SPREAD * sum(weight**2 for weight in weights)


def _shares(labels: Int[Tensor, " image"], kept: Bool[Tensor, "fold image"]) -> Float[Tensor, "fold image"]:
    """The weight of each image in the mean, such that all classes have equal weight."""
    members = F.one_hot(labels).float()
    counts = kept.float() @ members
    present = (counts > 0).sum(1, keepdim=True)
    return torch.where(kept, 1 / (counts @ members.T * present), 0.0)


def _evenly(labels: Int[Tensor, " image"], most: int) -> Int[Tensor, " chosen"]:
    """Choose the first images of every class, equally many, `most` in total but at least two per class."""
    ranks, room = rank_in_class(labels), max(2, most // (int(labels.max()) + 1))
    return torch.arange(len(labels)) if len(labels) <= most else torch.nonzero(ranks < room).flatten()


def _some_classes(labels: Int[Tensor, " image"]) -> Int[Tensor, " chosen"]:
    """Choose all images of evenly spaced classes, so few classes that two images of each can be tried."""
    step = -(-(int(labels.max()) + 1) // (MOST_TRIED // 2))
    return torch.nonzero(labels % step == 0).flatten()


def _choose(
    supports: Vectors,
    queries: Vectors,
    labels: Int[Tensor, " image"],
    dims: Sequence[int],
    candidates: Sequence[Sequence[float]],
    penalty: float,
) -> tuple[int, HeldOutScores]:
    """Choose the candidate with the largest held-out likelihood, each at its best sharpness; return its scores too.

    A candidate is preferred to the first only if it is better by more than one standard error of the paired difference.
    """
    labels = labels.unique(return_inverse=True)[1]
    turn, tried = assign_folds(labels, FOLDS), _evenly(labels, MOST_TRIED)
    held, products = turn != NEVER, Products.of(supports[tried], queries, dims)
    found, likelihoods = [], []
    for weights in candidates:
        found.append(_cross_fit(products, tried, labels, turn, weights, penalty))
        scores = found[-1].scores[held]
        sharpened = (sharpness(scores.double().log_softmax(-1), labels[held]) * scores).log_softmax(-1)
        likelihoods.append(sharpened.gather(1, labels[held, None]).squeeze(1))
    gains = torch.stack(likelihoods) - likelihoods[0]
    best = int(gains.mean(1).argmax())
    error = float(gains[best].std()) / len(gains[best]) ** 0.5
    chosen = best if gains[best].mean() > error else 0
    return chosen, found[chosen]
