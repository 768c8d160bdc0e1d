"""Multinomial logistic regression with an L2 penalty, for many tasks at once.

It minimises the sum over images of the cross-entropy plus penalty / 2 times the squared length of the class weights,
which is scikit-learn's objective with C = 1 / penalty. An intercept is not penalised.

Böhning's bound (1992) replaces the Hessian of every step by one matrix, half the Gram matrix plus the penalty, which is
inverted once. A step is then one or two matrix products for all tasks. Nesterov's momentum, restarted for each task
when it points uphill, compensates for the curvature that the bound ignores. If a task has fewer images than dimensions,
we solve the dual: class weights are combinations of the images, and only the Gram matrix is needed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

TOLERANCE = 1e-4
"""A task is solved when its next step changes no score of its images by more than this. Probabilities are then off by
about half of it: the steps shrink by the same factor by which probabilities react less than the bound assumes."""

STEPS = 1000
"""The largest number of steps; unit features need about 15 with a penalty of 0.1, and about 100 with 0.001."""

Scores = Float[Tensor, "task image way"]
Coefficients = Float[Tensor, "task row way"]
Move = Callable[[Scores, Coefficients], tuple[Coefficients, Scores]]
"""Maps the gradient with respect to scores, and the coefficients, to the step in coefficients and in scores."""


@dataclass(frozen=True)
class LinearClassifier:
    """A linear classifier, with one weight vector and one bias per class."""

    class_weights: Float[Tensor, "task way dim"]
    bias: Float[Tensor, "task way"]

    def scores(self, features: Float[Tensor, "task image dim"]) -> Scores:
        """Compute logits, whose softmax is the probability of each class."""
        return torch.baddbmm(self.bias[:, None], features, self.class_weights.mT)


@torch.no_grad()
def logistic_regression(
    features: Float[Tensor, "task image dim"],
    labels: Int[Tensor, "#task image"],
    penalty: float | Float[Tensor, " task"],
    *,
    way: int | None = None,
    intercept: bool = True,
    tolerance: float = TOLERANCE,
) -> LinearClassifier:
    """Fit every task to its images, in the dual if a task has fewer images than dimensions.

    Pass `way`, the number of classes, if some task may lack images of the last class.
    """
    images, dim = features.shape[1:]
    truth = F.one_hot(labels, way or int(labels.max()) + 1).to(features.dtype)
    truth = truth.expand(len(features), -1, -1)
    # An unpenalised intercept makes scores independent of where features are centred, and at their mean it does not
    # interact with the weights in Böhning's bound.
    centre = features.mean(1, keepdim=True) if intercept else torch.zeros_like(features[:, :1])
    centred = features - centre
    if images < dim:
        coefficients, bias = fit_dual(centred @ centred.mT, truth, penalty, intercept=intercept, tolerance=tolerance)
        class_weights = coefficients.mT @ centred
    else:
        coefficients, bias = _fit_primal(centred, truth, penalty, intercept, tolerance)
        class_weights = coefficients.mT
    return LinearClassifier(class_weights, bias - (class_weights @ centre.mT).squeeze(2))


@torch.no_grad()
def fit_dual(
    gram: Float[Tensor, "task image image"],
    truth: Scores,
    penalty: float | Float[Tensor, " task"],
    *,
    kept: Bool[Tensor, "task image"] | None = None,
    intercept: bool = False,
    tolerance: float = TOLERANCE,
    steps: int = STEPS,
) -> tuple[Scores, Float[Tensor, "task way"]]:
    """Fit from inner products alone; return the coefficient of each image in each class's weights, and the bias.

    Images that are not `kept` are ignored and have zero coefficients, so the folds of one task can be the tasks of a
    batch. With an intercept, the features of kept images should be centred, or convergence is slow.
    """
    penalties = _per_task(penalty, gram)
    present = torch.ones_like(gram[..., :1]) if kept is None else kept[..., None].to(gram.dtype)
    inverse = _inverse(0.5 * present * gram * present.mT, penalties)

    def move(residual: Scores, coefficients: Coefficients) -> tuple[Coefficients, Scores]:
        gradient = residual + penalties * coefficients
        change = inverse @ gradient
        return change, 2 * (gradient - penalties * change)  # equals gram @ change, by definition of the inverse

    return _descend(move, truth, torch.zeros_like(truth), present, intercept, tolerance, steps)


def _fit_primal(
    features: Float[Tensor, "task image dim"],
    truth: Scores,
    penalty: float | Float[Tensor, " task"],
    intercept: bool,
    tolerance: float,
) -> tuple[Coefficients, Float[Tensor, "task way"]]:
    penalties = _per_task(penalty, features)
    inverse = _inverse(0.5 * features.mT @ features, penalties)

    def move(residual: Scores, coefficients: Coefficients) -> tuple[Coefficients, Scores]:
        change = inverse @ (features.mT @ residual + penalties * coefficients)
        return change, features @ change

    start = features.new_zeros(len(features), features.shape[2], truth.shape[2])
    return _descend(move, truth, start, torch.ones_like(truth[..., :1]), intercept, tolerance, STEPS)


def _descend(
    move: Move,
    truth: Scores,
    start: Coefficients,
    present: Float[Tensor, "task image 1"],
    intercept: bool,
    tolerance: float,
    steps: int,
) -> tuple[Coefficients, Float[Tensor, "task way"]]:
    """Minimise by Böhning's bound with momentum, from zero, until no score changes by more than the tolerance."""
    bias = truth.new_zeros(len(truth), 1, truth.shape[2])
    here = ahead = (start, bias, torch.zeros_like(truth))  # coefficients, bias and the scores of kept images
    inertia = truth.new_ones(len(truth), 1, 1)
    for _ in range(steps):
        residual = present * (ahead[2].softmax(-1) - truth)
        down, down_scores = move(residual, ahead[0])
        lift = 2 / present.sum(1, keepdim=True) * residual.sum(1, keepdim=True) * intercept
        down_scores = present * (down_scores + lift)
        following = ahead[0] - down, ahead[1] - lift, ahead[2] - down_scores
        if float(down_scores.abs().max()) <= tolerance:
            here = following
            break
        moved = following[2] - here[2]
        inertia = torch.where((down_scores * moved).sum((1, 2), keepdim=True) > 0, 1.0, inertia)
        grown = (1 + (1 + 4 * inertia.square()).sqrt()) / 2
        share = (inertia - 1) / grown
        coefficients, bias, scores = (new + share * (new - old) for new, old in zip(following, here, strict=True))
        ahead = coefficients, bias, scores
        here, inertia = following, grown
    return here[0], here[1].squeeze(1)


def _per_task(penalty: float | Float[Tensor, " task"], like: Tensor) -> Float[Tensor, "#task 1 1"]:
    return torch.as_tensor(penalty, dtype=like.dtype, device=like.device).view(-1, 1, 1)


def _inverse(bound: Float[Tensor, "task row row"], penalties: Float[Tensor, "#task 1 1"]) -> Tensor:
    identity = torch.eye(bound.shape[1], dtype=bound.dtype, device=bound.device)
    return torch.cholesky_inverse(torch.linalg.cholesky(bound + penalties * identity))
