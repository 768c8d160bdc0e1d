"""Methods on frozen features that are linear classifiers of one vector per image, fitted to one task of a user.

In an evaluation all classes have equally many supports; the classes of a user have any number of images. Both
call the same functions.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from implanting.baselines.cosine_fine_tuning import TAU, fine_tuned
from implanting.config import LinearMethod, RivalConfig
from implanting.dense_classification import prototypes
from implanting.fewshot import LinearClassifier, logistic_regression

Vectors = Float[Tensor, "image dim"]


def linear_classifier(
    method: LinearMethod, vectors: Vectors, labels: Int[Tensor, " image"], tau: float, config: RivalConfig
) -> LinearClassifier:
    """Fit one task, an axis of length 1; its scores are of vectors at unit length, in which softmax is a probability.

    Every class needs an image.
    """
    directions = F.normalize(vectors, dim=-1)
    if method == "logistic":
        return logistic_regression(directions[None], labels[None], 1 / config.logistic_strength)
    weights = prototypes(directions, labels.argsort(stable=True), labels.bincount())[None]
    if method == "baseline++":
        weights, tau = fine_tuned(weights, directions[None], labels[None], config), TAU
    return LinearClassifier(tau * F.normalize(weights, dim=-1), torch.zeros(1, weights.shape[1]))
