"""The cosine classifier of stage 1: class weights W, a learnable scale tau, and the loss.

`dense` classifies every location by itself (eq. dc-map, dc-cost), `gap` and `gmp` the pooled map, `flatten` the whole
map as one vector, with class weights of shape r x d (imprinted weights, eq. print-map). There is no bias. The paper
writes sums; the loss here is the mean over images and locations, so that the step does not grow with the map.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from implanting.config import Pooling
from implanting.similarity import locations, pool, scaled_cosine


class CosineClassifier(nn.Module):
    """Scores s_tau(phi^(q)(x), w_j) of each location q (one, where the map is pooled) for each base class j."""

    def __init__(self, classes: int, dim: int, pooling: Pooling, tau: float, map_size: tuple[int, int]) -> None:
        super().__init__()
        self.pooling = pooling
        weight_dim = dim * math.prod(map_size) if pooling == "flatten" else dim
        self.class_weights = nn.Parameter(torch.randn(classes, weight_dim) * math.sqrt(2 / weight_dim))
        self.tau = nn.Parameter(torch.tensor(float(tau)))

    def forward(self, maps: Float[Tensor, "image dim height width"]) -> Float[Tensor, "image location way"]:
        return scaled_cosine(pool(locations(maps), self.pooling), self.class_weights, self.tau)


def classification_loss(
    scores: Float[Tensor, "image location way"],
    labels: Int[Tensor, " image"] | Float[Tensor, "image way"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Cross-entropy of every location's scores with its image's label, averaged (eq. dc-cost).

    Instead of a label an image may have the probability of each class.
    """
    every_location = labels.repeat_interleave(scores.shape[1], dim=0)
    return F.cross_entropy(scores.flatten(0, 1), every_location, label_smoothing=label_smoothing)
