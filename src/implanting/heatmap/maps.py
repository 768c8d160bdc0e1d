"""Per-location class scores of one image: where it looks like a class.

A finer map than the network's last one: pass phi of the image at a multiple of the network's size, with the rows and
columns that it has there. The network is convolutional, so nothing else changes; but it sees objects larger than those
it was trained on, and the probabilities that belong to the classes are still those at the network's own size.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from implanting.dense_classification import scaled_cosine

MapKind = Literal["evidence", "similarity", "softmax"]
"""What each location adds to the score of a head; the cosine with a class, whatever the others; or the share of a class
among the classes at each location (Eq. 9)."""

SCALE_LABELS: dict[MapKind, str] = {
    "evidence": "evidence for the class",
    "similarity": "cosine similarity to the class",
    "softmax": "probability of the class",
}


def similarity_maps(
    phi: Float[Tensor, "location dim"], vectors: Float[Tensor, "way dim"], size: tuple[int, int]
) -> Float[Tensor, "way rows columns"]:
    """The cosine of every location with each class's prototype or weights, as maps of `size` rows and columns."""
    return scaled_cosine(phi, vectors, 1.0).mT.unflatten(1, size)


def softmax_maps(
    phi: Float[Tensor, "location dim"], vectors: Float[Tensor, "way dim"], tau: float, size: tuple[int, int]
) -> Float[Tensor, "way rows columns"]:
    """Softmax over classes at every location (Eq. 9); the mean of a map is the class's dense probability."""
    return torch.softmax(scaled_cosine(phi, vectors, tau), dim=-1).mT.unflatten(1, size)


def evidence_maps(
    shares: Float[Tensor, "dim rows columns"], class_weights: Float[Tensor, "way dim"], bias: Float[Tensor, " way"]
) -> Float[Tensor, "way rows columns"]:
    """What each location adds to a linear score: the mean of a map is the score of its class.

    `shares` are the parts of locations in the vector that is scored, whose mean it is.
    """
    return (class_weights @ shares.flatten(1) + bias[:, None]).unflatten(1, shares.shape[1:])
