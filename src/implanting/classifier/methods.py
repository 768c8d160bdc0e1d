"""The setting `method`: a method of `baselines` on a user's own images, by its name in `evaluate`.

Prototypes and implants are what `head` and `implants` choose as well. The linear methods become a head on the first
reading of an image, the feature that prototypes have; files, heat maps and ONNX then work as with any head. The other
methods are refused, each with its reason.
"""

from collections.abc import Sequence
from typing import Any, Literal, cast, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from implanting.config import LinearMethod, MethodName, RivalConfig, require
from implanting.errors import ConfigError
from implanting.fewshot import NEVER, assign_folds
from implanting.head import Fitted, Head, HeldOutScores

FOLDS = 5
"""Number of parts into which the images of each class are divided, each held out in turn."""

Vectors = Float[Tensor, "image dim"]
MethodChoice = Literal["auto"] | MethodName

TRAINED = "is a way to train a base: make one with `implanting pretrain`, and test it with `implanting evaluate`"
REFUSED: dict[MethodName, str] = {
    "random-implants": "shows what implants are worth untrained: use implants, or test it with `implanting evaluate`",
    "last-block": "changes the network itself, which a classifier shares with others: use implants",
    "nearest": "has no class weights to save or to show: use prototypes or logistic",
    "simpleshot": "reads the images that the base was trained on, which no base keeps: use prototypes or logistic",
    "pn": TRAINED,
    "gidaris": TRAINED,
    "maml": TRAINED,
    "tadam": TRAINED,
}


def is_linear(method: MethodChoice) -> bool:
    """Whether a method is fitted here, as a head."""
    return method in get_args(LinearMethod)


def settings_of(method: str, head: Any, implants: Any) -> tuple[Any, Any]:
    """The settings `head` and `implants` under which a method is learned; refuse a method that cannot be learned."""
    possible = [name for name in get_args(MethodName) if name not in REFUSED]
    require(method == "auto" or method in get_args(MethodName), "method", method, f"auto, {', '.join(possible)}")
    if method == "auto":
        return head, implants
    if method in REFUSED:
        raise ConfigError(f"`method` {method} {REFUSED[method]}")
    if head != "auto" or implants != "auto":
        other = "head" if head != "auto" else "implants"
        raise ConfigError(f"`method` and `{other}` both choose how classes are told apart: leave one of them out")
    return {"prototypes": ("prototypes", False), "implants": ("prototypes", True)}.get(method, ("logistic", False))


def fit_method(
    method: MethodChoice,
    supports: Vectors,
    queries: Vectors,
    labels: Int[Tensor, " image"],
    dims: Sequence[int],
    tau: float,
) -> Fitted:
    """Fit a linear method as a head on the first of some joined readings; folds are fitted one after another."""
    turn = assign_folds(labels, FOLDS)
    scores = supports.new_full((len(labels), int(labels.max()) + 1), torch.nan)
    for fold in range(int(turn.max()) + 1):
        kept, held = turn != fold, turn == fold
        scores[held] = _head(method, supports[kept], labels[kept], dims, tau).scores(queries[held])
    distances = torch.where(turn == NEVER, torch.nan, 1.0)
    weights = (1.0, *(0.0 for _ in dims[1:]))
    return Fitted(_head(method, supports, labels, dims, tau), weights, HeldOutScores(scores, distances, growth=1.0))


def _head(
    method: MethodChoice, supports: Vectors, labels: Int[Tensor, " image"], dims: Sequence[int], tau: float
) -> Head:
    """A reading has unit length, so that the open-set score of this head is minus the largest score."""
    from implanting.baselines import linear_classifier  # a saved classifier answers without loading all methods

    fitted = linear_classifier(cast(LinearMethod, method), supports[:, : dims[0]], labels, tau, RivalConfig())
    class_weights = supports.new_zeros(fitted.class_weights.shape[1], sum(dims))
    class_weights[:, : dims[0]] = fitted.class_weights[0]
    first = torch.zeros(sum(dims))
    first[: dims[0]] = 1.0
    return Head(class_weights, fitted.bias[0].contiguous(), torch.zeros_like(first), first)
