"""Scaled cosine similarity, pooling, prototypes and probabilities: the arithmetic both stages share.

A feature map is the normal case. Everything here takes phi as [*batch location dim], and a pooled vector is a map
with one location, so dense classification (eq. dc-map) and classification after pooling (eq. print-map) are one code:
score every location, softmax over classes, average over locations.
"""

from typing import get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from implanting.config import Pooling
from implanting.errors import ConfigError


def locations(maps: Float[Tensor, "image dim height width"]) -> Float[Tensor, "image location dim"]:
    """A network's output as phi(x): r = height * width vectors of d features."""
    return maps.flatten(2).transpose(1, 2)


def pool(phi: Float[Tensor, "*batch location dim"], pooling: Pooling) -> Float[Tensor, "*batch pooled pooled_dim"]:
    """Mean (gap) or maximum (gmp) over locations, all locations as one vector (flatten), or phi itself (dense)."""
    if pooling == "gap":
        return phi.mean(-2, keepdim=True)
    if pooling == "gmp":
        return phi.amax(-2, keepdim=True)
    if pooling == "flatten":
        return phi.flatten(-2).unsqueeze(-2)
    if pooling == "dense":
        return phi
    raise ConfigError(f"pooling is {pooling}; it must be one of {', '.join(get_args(Pooling))}")


def scaled_cosine(
    phi: Float[Tensor, "*batch location dim"], vectors: Float[Tensor, "*#batch way dim"], tau: float | Tensor
) -> Float[Tensor, "*batch location way"]:
    """s_tau(u, v) = tau <u / |u|, v / |v|> of every location with every class vector (eq. cosine)."""
    return tau * (F.normalize(phi, dim=-1) @ F.normalize(vectors, dim=-1).mT)


def probabilities(scores: Float[Tensor, "*batch location way"]) -> Float[Tensor, "*batch way"]:
    """Softmax over classes at each location, averaged over locations (eq. pred-dc): probabilities, not logits."""
    return torch.softmax(scores, dim=-1).mean(-2)


def prototypes(support: Float[Tensor, "*batch shot 1 dim"]) -> Float[Tensor, "*batch dim"]:
    """The plain mean of a class's pooled supports (eq. proto); no support is normalised by itself."""
    return support.mean((-3, -2))
