"""The obvious rivals of a few-shot classifier: a few lines each, on the features of the same base network."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from torch import Tensor

Supports = Float[Tensor, "support dim"]
Labels = Int[Tensor, " support"]
Queries = Float[Tensor, "query dim"]

Predict = Callable[[Queries], Float[Tensor, "query way"]]
"""A function from queries to the probabilities of the classes."""

STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Values of C from which cross-validation chooses."""

ONE_IMAGE = 100.0
"""C if a class has a single image, which cannot be held out."""

FOLDS, ITERATIONS = 5, 1000


def logistic_regression(features: Supports, labels: Labels) -> Predict:
    """scikit-learn's logistic regression; C is chosen by cross-validation if every class has at least two images."""
    fewest = int(labels.bincount().min())
    model = LogisticRegression(C=ONE_IMAGE, max_iter=ITERATIONS)
    if fewest >= 2:
        model = GridSearchCV(model, {"C": STRENGTHS}, cv=StratifiedKFold(min(FOLDS, fewest)))
    model.fit(_as_array(features), labels.numpy())
    return lambda queries: torch.from_numpy(model.predict_proba(_as_array(queries)))


def in_their_span(features: Supports, labels: Labels) -> Predict:
    """The same logistic regression in the coordinates of the supports' span, which are fewer.

    A rotation changes neither distances nor products, so neither the penalty nor any probability; it is only quicker.
    """
    axes = torch.linalg.qr(features.double().T).Q
    predict = logistic_regression(features.double() @ axes, labels)
    return lambda queries: predict(queries.double() @ axes)


def nearest_neighbour(features: Supports, labels: Labels) -> Predict:
    """The class of the support with the largest cosine, with probability 1."""
    classes = int(labels.max()) + 1
    return lambda queries: torch.eye(classes)[labels[(queries @ features.T).argmax(1)]]


def prototypes(tau: float) -> Callable[[Supports, Labels], Predict]:
    """The scaled cosine with the mean of each class's supports, by the scale of the base network."""

    def fit(features: Supports, labels: Labels) -> Predict:
        sums = torch.zeros(int(labels.max()) + 1, features.shape[1]).index_add(0, labels, features)
        directions = torch.nn.functional.normalize(sums, dim=1)
        return lambda queries: (tau * queries @ directions.T).softmax(1)

    return fit


def _as_array(features: Tensor) -> np.ndarray:
    return features.double().numpy()
