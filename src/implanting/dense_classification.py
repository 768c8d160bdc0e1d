"""Section 3 of the paper: scaled cosine, pooling, prototypes, the cosine classifier of stage 1 and its loss.

A feature map is the normal case. Everything here takes phi as [*batch location dim], and a pooled vector is a map
with one location, so dense classification (Eq. 9) and classification after pooling (Eq. 6) are the same code:
score every location, softmax over classes, average over locations.

The cosine classifier has class weights W and a learnable scale tau, and no bias. `dense` classifies each location
separately (Eqs. 9 and 10), `gap` and `gmp` classify the pooled map, and `flatten` the whole map as one vector, with
class weights of shape r x d (imprinted weights, Eq. 6). The paper writes sums; the loss here is the mean over images
and locations, so that the size of a step does not depend on the size of the map.
"""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from implanting.config import InferenceConfig, Pooling, SupportPooling, TestPooling
from implanting.errors import ConfigError

CENTRING = 0.75
"""The share of the base images' mean direction that gem-centred removes (`docs/decisions/0023-centring.md`)."""


def locations(maps: Float[Tensor, "image dim height width"]) -> Float[Tensor, "image location dim"]:
    """A network's output as phi(x): r = height * width vectors of d features."""
    return maps.flatten(2).transpose(1, 2)


def pool(
    phi: Float[Tensor, "*batch location dim"], pooling: Pooling | SupportPooling
) -> Float[Tensor, "*batch pooled pooled_dim"]:
    """The mean (gap) or maximum (gmp) over locations, all locations as one vector (flatten), or phi itself (dense).

    gem is the generalised mean of Radenovic, Tolias & Chum 2018, between both: (mean of max(phi, 0)^2)^(1/2). At test
    it tells novel classes apart better than the mean by which a network was trained (`docs/decisions/0022-pooling.md`).
    """
    if pooling == "gem":
        return phi.clamp_min(0).square().mean(-2, keepdim=True).sqrt()
    if pooling == "gap":
        return phi.mean(-2, keepdim=True)
    if pooling == "gmp":
        return phi.amax(-2, keepdim=True)
    if pooling == "flatten":
        return phi.flatten(-2).unsqueeze(-2)
    if pooling == "dense":
        return phi
    raise ConfigError(f"`pooling` is {pooling}; it must be one of {', '.join(get_args(Pooling))}, gem")


def centred(
    vectors: Float[Tensor, "*batch dim"], mean_direction: Float[Tensor, " base_dim"]
) -> Float[Tensor, "*batch dim"]:
    """v / |v| - 0.75 m: the direction of a vector without most of m, what the directions of base images have in common.

    Implants' channels, which come after those of the base network, have no part in m.
    """
    missing = vectors.shape[-1] - len(mean_direction)
    return F.normalize(vectors, dim=-1) - CENTRING * F.pad(mean_direction.to(vectors), (0, missing))


def scaled_cosine(
    phi: Float[Tensor, "*batch location dim"], vectors: Float[Tensor, "*#batch way dim"], tau: float | Tensor
) -> Float[Tensor, "*batch location way"]:
    """s_tau(u, v) = tau <u / |u|, v / |v|> of every location with every class vector (Eq. 7)."""
    return tau * (F.normalize(phi, dim=-1) @ F.normalize(vectors, dim=-1).mT)


def probabilities(scores: Float[Tensor, "*batch location way"]) -> Float[Tensor, "*batch way"]:
    """Softmax over classes at each location, averaged over locations (Eq. 14): probabilities, not logits."""
    return torch.softmax(scores, dim=-1).mean(-2)


def prototypes(
    vectors: Float[Tensor, "image dim"], supports: Int[Tensor, " support"], shots: int | Int[Tensor, " way"]
) -> Float[Tensor, "way dim"]:
    """The plain mean of each class's pooled supports (Eq. 1); supports are not normalised first.

    `supports` has the indices of the images of the first class, then those of the second, and so on, `shots` of each;
    the classes may be those of many tasks, one task after another. No copy of the supports is made.
    """
    if isinstance(shots, int):
        return F.embedding_bag(supports.view(-1, shots), vectors, mode="mean")
    return F.embedding_bag(supports, vectors, shots.cumsum(0) - shots, mode="mean")


def left_out_cosines(
    queries: Float[Tensor, "image pooled dim"],
    vectors: Float[Tensor, "image dim"],
    labels: Int[Tensor, " image"],
    means: Float[Tensor, "way dim"],
    counts: Int[Tensor, " way"],
) -> Float[Tensor, "image pooled way"]:
    """Leave-one-out: cosines of each support with the prototypes; that of its own class is made without it.

    `vectors` are the pooled supports that the prototypes average; each class needs at least one other support.
    """
    cosines = scaled_cosine(queries, means, 1.0)
    rest = (
        means[labels] * counts[labels, None] - vectors
    )  # not divided by the count: a cosine does not depend on length
    own = scaled_cosine(queries, rest[:, None], 1.0)
    return cosines.scatter(2, labels[:, None, None].expand(-1, queries.shape[1], 1), own)


class CosineClassifier(nn.Module):
    """Scores s_tau(phi^(q)(x), w_j) of each location q (only one if the map is pooled) for each base class j."""

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
) -> Float[Tensor, ""]:
    """Cross-entropy of every location's scores with its image's label, averaged (Eq. 10).

    The target of an image may also be a probability per class instead of a label.
    """
    every_location = labels.repeat_interleave(scores.shape[1], dim=0)
    return F.cross_entropy(scores.flatten(0, 1), every_location)


@dataclass(frozen=True)
class PrototypeClassifier:
    """How supports are pooled into prototypes, and how queries are scored."""

    support_pooling: TestPooling | Literal["flatten"]
    query_pooling: Pooling | TestPooling
    tau: float
    mean_direction: Float[Tensor, " base_dim"] | None = field(default=None, compare=False, repr=False)
    """What the directions of base images have in common, if supports and queries are pooled by gem-centred."""

    def vectors(self, phi: Float[Tensor, "*batch location dim"]) -> Float[Tensor, "*batch pooled_dim"]:
        """One vector per map, pooled like a support."""
        return self.centred(pool(phi, uncentred(self.support_pooling))).squeeze(-2)

    def asked(self, phi: Float[Tensor, "*batch location dim"]) -> Float[Tensor, "*batch pooled pooled_dim"]:
        """The vectors at which a query is classified: one, or one per location."""
        return self.centred(pool(phi, uncentred(self.query_pooling)))

    def centred(self, vectors: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """The vectors themselves, or centred if there is a mean direction."""
        return vectors if self.mean_direction is None else centred(vectors, self.mean_direction)

    def __str__(self) -> str:
        return f"{self.support_pooling}/{self.query_pooling}"


def uncentred(pooling: Pooling | TestPooling) -> Pooling | SupportPooling:
    """The pooling that comes before centring."""
    return "gem" if pooling == "gem-centred" else pooling


def prototype_classifier(
    pooling: Pooling,
    tau: float,
    test: InferenceConfig,
    mean_direction: Float[Tensor, " base_dim"] | None = None,
) -> PrototypeClassifier:
    """The classifier with which a base trained with `pooling` is tested.

    Unless `test` says otherwise, queries are dense for a densely trained base and gap for others. A base trained with
    flatten has prototypes of r x d numbers, since its features depend on their location.
    """
    if pooling == "flatten":
        return PrototypeClassifier("flatten", "flatten", tau)
    if test.support_pooling == "gem-centred":
        if mean_direction is None:
            raise ConfigError(
                "gem-centred needs what base images have in common, which this base does not know: set "
                "`support_pooling` and `query_pooling` to gem, or add it to a network of `implanting pretrain` by "
                "`implanting join` with `gem`"
            )
        return PrototypeClassifier("gem-centred", "gem-centred", tau, mean_direction)
    return PrototypeClassifier(
        test.support_pooling or "gap", test.query_pooling or ("dense" if pooling == "dense" else "gap"), tau
    )
