"""Class scores per location of one image, which show where it resembles a class.

For a finer map than the network's last one, pass phi of the image at a multiple of the network's size, with the rows
and columns of that map. The network is convolutional, so nothing else changes. However, objects then look larger than
those it was trained on, so the class probabilities still come from the network's own size.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from implanting.dense_classification import scaled_cosine

MapKind = Literal["evidence", "similarity", "softmax"]
"""Kinds of maps: the contribution of each location to the score of a head; its cosine with a class, independent of the
other classes; or the probability of a class at each location (Eq. 9)."""

SCALE_LABELS: dict[MapKind, str] = {
    "evidence": "evidence for the class",
    "similarity": "cosine similarity to the class",
    "softmax": "probability of the class",
}


def similarity_maps(
    phi: Float[Tensor, "location dim"], vectors: Float[Tensor, "way dim"], size: tuple[int, int]
) -> Float[Tensor, "way rows columns"]:
    """Map the cosine of every location with each class's prototype or weights; `size` is in rows and columns."""
    return scaled_cosine(phi, vectors, 1.0).mT.unflatten(1, size)


def softmax_maps(
    phi: Float[Tensor, "location dim"], vectors: Float[Tensor, "way dim"], tau: float, size: tuple[int, int]
) -> Float[Tensor, "way rows columns"]:
    """Map the softmax over classes at every location (Eq. 9); the mean of a map is the class's dense probability."""
    return torch.softmax(scaled_cosine(phi, vectors, tau), dim=-1).mT.unflatten(1, size)


def evidence_maps(
    shares: Float[Tensor, "dim rows columns"], class_weights: Float[Tensor, "way dim"], bias: Float[Tensor, " way"]
) -> Float[Tensor, "way rows columns"]:
    """Map the contribution of each location to a linear score; the mean of a map is the score of its class.

    `shares` holds one vector per location; their mean is the vector that is scored.
    """
    return (class_weights @ shares.flatten(1) + bias[:, None]).unflatten(1, shares.shape[1:])
