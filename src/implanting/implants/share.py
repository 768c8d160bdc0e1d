"""How much trained implants count beside the base network. This goes beyond the paper, where they count fully.

Implants are trained until they tell the supports apart, so they respond to these several times as strongly as to other
images, and what they add to a prototype is partly learned by heart. After training their channels are therefore
multiplied by a factor w <= 1 that leaves them at most a share s of the squared length of the supports' features,

    w^2 r / (1 + w^2 r) = s,    r = sum_i |implants of x_i|^2 / sum_i |base features of x_i|^2.

The best share depends on the images: small where they are like those of the base network's training, large where they
are not, and there is more to learn from the supports than is lost. So each task chooses its own: implants are trained
on each half of its supports, and `chosen_shares` weighs `SHARES` by how likely the other half is with them
(`docs/decisions/0021-the-share-of-implants.md`).
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from implanting.config import Pooling
from implanting.dense_classification import pool
from implanting.implants.activations import Supports
from implanting.implants.stream import Implants

SHARES = (0.03, 0.08, 0.15, 0.25, 0.4, 1.0)
"""The shares among which a task chooses; 1 leaves implants as they were trained."""

USUAL, SPREAD = 0.1, 1.0
"""The prior: the logarithm of a share is normal about that of `USUAL`, with this deviation."""

FOLDS = 2
"""The parts of the supports, each of which is held out in turn."""

FEWEST_TO_CHOOSE = 4
"""The smallest class must have this many supports for a choice; with fewer, the share is `USUAL`."""

SMALLEST = 1e-6
"""The smallest factor: not zero, so that implants answer alone where the base network's features are zero."""


@torch.no_grad()
def ratio_of(implants: Implants, supports: Supports, pooling: Pooling) -> Float[Tensor, " task"]:
    """r: the squared length of the implants' channels of pooled supports over that of the base network's."""
    own, base = (pool(maps, pooling).square().sum((1, 2, 3)) for maps in (implants(supports.base_maps), supports.phi))
    return own / base.clamp_min(torch.finfo(base.dtype).tiny)


def weight_for(share: Float[Tensor, "*task"], ratio: Float[Tensor, "*task"]) -> Float[Tensor, "*task"]:
    """w: the factor that gives implants this share, or 1 if they have less."""
    scaled = (share / (1 - share) / ratio).sqrt().clamp(SMALLEST, 1)
    return torch.where(share >= 1, 1.0, scaled)  # also where base features are zero, and the ratio is infinite


def can_choose(labels: Int[Tensor, " image"]) -> bool:
    """Whether halves of these supports are enough to train implants on."""
    return int(labels.bincount().min()) >= FEWEST_TO_CHOOSE


def chosen_shares(log_likelihoods: Float[Tensor, "task share"]) -> Float[Tensor, " task"]:
    """The geometric mean of `SHARES`, weighed by how likely held-out supports are with each, and by the prior."""
    logarithms = torch.tensor(SHARES).log()
    prior = -0.5 * ((logarithms - math.log(USUAL)) / SPREAD).square()
    return (torch.softmax(log_likelihoods + prior, dim=1) * logarithms).sum(1).exp()
