"""Fitting the head: logistic regression on the supports, and what it says of supports that it has not seen.

Features are centred on the classes of the task and scaled to unit mean square, so that one penalty serves tasks of any
domain. The folds of cross-fitting are fitted together, from inner products alone: their cost does not depend on the
number of dims.
"""

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

Vectors = Float[Tensor, "image dim"]


@dataclass(frozen=True)
class Head:
    """A score per class, linear in the joined readings of an image."""

    class_weights: Float[Tensor, "way dim"]
    bias: Float[Tensor, " way"]

    def scores(self, vectors: Float[Tensor, "*image dim"]) -> Float[Tensor, "*image way"]:
        """Logits before calibration; over classes their sum is zero."""
        return F.linear(vectors, self.class_weights, self.bias)


@dataclass(frozen=True)
class Fitted:
    """A head, and how it does on images that it has not seen."""

    head: Head
    reading_weights: tuple[float, ...]
    held_out: Float[Tensor, "image way"]
    """Scores of every support by a head that was fitted without its fold; nan where its class has no other image."""


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
    chosen, held_out = 0, supports.new_full((len(labels), int(labels.max()) + 1), torch.nan)
    if bool((turn != NEVER).any()):
        grams = _grams(supports[tried], queries, dims)
        if len(candidates) > 1:
            found = [_cross_fit(grams, tried, labels, turn, weights, penalty) for weights in candidates]
            chosen = _better(torch.stack(found), labels, turn != NEVER)
            held_out = found[chosen]
        if len(candidates) == 1 or len(labels) > MOST_TRIED:
            kept = _evenly(labels, MOST_HELD)
            grams = _grams(supports[kept], queries, dims)
            held_out = _cross_fit(grams, kept, labels, turn, candidates[chosen], penalty)
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
    return Head(class_weights, -(class_weights @ centre))


def _grams(supports: Vectors, queries: Vectors, dims: Sequence[int]) -> tuple[list[Tensor], list[Tensor]]:
    """Inner products of each reading: of supports with supports, and of queries with supports."""
    own, other = supports.split(list(dims), 1), queries.split(list(dims), 1)
    return [part @ part.T for part in own], [asked @ part.T for asked, part in zip(other, own, strict=True)]


def _cross_fit(
    grams: tuple[list[Tensor], list[Tensor]],
    fitted: Int[Tensor, " fitted"],
    labels: Int[Tensor, " image"],
    turn: Int[Tensor, " image"],
    weights: Sequence[float],
    penalty: float,
) -> Float[Tensor, "image way"]:
    """Scores of every image by a head that was fitted without its fold, to some of the images."""
    own, asked = (sum(weight**2 * gram for weight, gram in zip(weights, parts, strict=True)) for parts in grams)
    folds = int(turn.max()) + 1
    kept = turn[fitted] != torch.arange(folds)[:, None]
    shares = _shares(labels[fitted], kept)
    own_means, asked_means = shares @ own, shares @ asked.T
    total = (shares * own_means).sum(1)[:, None, None]
    centred = own - own_means[:, None] - own_means[:, :, None] + total
    length = (shares * centred.diagonal(dim1=1, dim2=2)).sum(1).clamp_min(_least(weights))[:, None, None]
    truth = F.one_hot(labels[fitted], int(labels.max()) + 1).to(own.dtype).expand(folds, -1, -1)
    coefficients, _ = fit_dual(centred / length, truth, penalty, kept=kept, steps=FOLD_STEPS)
    result = own.new_full((len(labels), truth.shape[2]), torch.nan)
    for fold in range(folds):
        held = turn == fold
        products = asked[held] - own_means[fold] - asked_means[fold, held, None] + total[fold]
        result[held] = products / length[fold] @ coefficients[fold]
    return result


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


def _better(
    scores: Float[Tensor, "candidate image way"], labels: Int[Tensor, " image"], held: Bool[Tensor, " image"]
) -> int:
    """The candidate of largest held-out likelihood, each at its best sharpness; the first one within doubt.

    Another one than the first must be better by more than a standard error of the paired difference.
    """
    truth = labels[held]
    likelihoods = []
    for asked in scores[:, held].double():
        sharpened = (sharpness(asked.log_softmax(-1), truth) * asked).log_softmax(-1)
        likelihoods.append(sharpened.gather(1, truth[:, None]).squeeze(1))
    gains = torch.stack(likelihoods) - likelihoods[0]
    means = gains.mean(1) - gains.std(1) / len(truth) ** 0.5
    best = int(gains.mean(1).argmax())
    return best if means[best] > 0 else 0
