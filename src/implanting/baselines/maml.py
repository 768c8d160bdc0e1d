"""MAML: initial weights from which a few steps of gradient descent on a task's supports answer its queries.

Finn, Abbeel & Levine, "Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks", 2017, arXiv 1703.03400.
For a task with supports S and queries Q,

    theta_0 = theta,    theta_{k+1} = theta_k - alpha grad L_S(theta_k),    min_theta sum over tasks of L_Q(theta_K),

with L the cross-entropy of a linear classifier over the flattened map. All weights adapt, those of the classifier
too. The first-order variant treats the gradients of the inner steps as constants.

Choices: as published, alpha 0.01, 5 inner steps in training and 10 at test, Adam with 1e-3 outside. Batch norm always
uses the statistics of the task's supports, for its queries too: the original uses those of the batch at hand, so that
its queries know of each other (it is transductive), which is worth some points and is not done here. Tasks are an
axis (`vmap`), except in tests on a CPU: inner steps need no second derivatives there, and one task after the other,
with PyTorch's own batch norm and max-pool, takes a third of the time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.func import grad, vmap

from implanting.baselines.episodes import Episodes
from implanting.config import EpisodeConfig
from implanting.errors import ConfigError
from implanting.fewshot import Queries, Tasks, named
from implanting.images import Normalisation
from implanting.networks import Network

POOL = 2
"""The side of the max-pool after each convolution."""

EPSILON = 1e-5
"""Added to variances in batch norm, as PyTorch does."""

Weights = Mapping[str, Tensor]
Images = Float[Tensor, "image 3 height width"]


def pooled_norm(
    maps: Float[Tensor, "image channel height width"],
    gamma: Float[Tensor, " channel"],
    beta: Float[Tensor, " channel"],
    supports: int,
) -> Tensor:
    """Batch norm with the statistics of the first images, which are the supports, then a 2x2 max-pool.

    Only the numbers that the pool keeps are normalised, and the ReLU may follow: both orders give the same, and most
    of the time goes into passes over whole maps. The numbers are gathered because the gradient of PyTorch's max-pool
    has no batching rule for second derivatives.
    """
    variance, mean = torch.var_mean(maps[:supports], dim=(0, 2, 3), correction=0, keepdim=True)
    scale = gamma[:, None, None] * torch.rsqrt(variance + EPSILON)
    largest = (maps * scale.sign()).detach()
    _, kept = F.max_pool2d(largest, POOL, return_indices=True)
    pooled = maps.flatten(2).gather(2, kept.flatten(2)).unflatten(2, kept.shape[2:])
    return (pooled - mean) * scale + beta[:, None, None]


def plain_norm(
    maps: Float[Tensor, "image channel height width"],
    gamma: Float[Tensor, " channel"],
    beta: Float[Tensor, " channel"],
    supports: int,
) -> Tensor:
    """`pooled_norm` by PyTorch's own functions: faster, but not for second derivatives of many tasks at once."""
    if len(maps) == supports:
        return F.max_pool2d(F.batch_norm(maps, None, None, gamma, beta, training=True, eps=EPSILON), POOL)
    variance, mean = torch.var_mean(maps[:supports], dim=(0, 2, 3), correction=0)
    return F.max_pool2d(F.batch_norm(maps, mean, variance, gamma, beta, eps=EPSILON), POOL)


def scores_of(
    weights: Weights,
    relus: tuple[bool, ...],
    images: Images,
    supports: int,
    norm: Callable[[Tensor, Tensor, Tensor, int], Tensor] = pooled_norm,
) -> Float[Tensor, "image way"]:
    """The scores of images, the first of which are the supports."""
    maps: Tensor = images
    for block, relu in enumerate(relus):
        name = f"network.blocks.{block}"
        maps = F.conv2d(maps, weights[f"{name}.conv1.weight"], padding=1)
        maps = norm(maps, weights[f"{name}.norm1.weight"], weights[f"{name}.norm1.bias"], supports)
        maps = F.relu(maps) if relu else maps
    return F.linear(maps.flatten(1), weights["own.weight"], weights["own.bias"])


def adapted(
    weights: Weights,
    relus: tuple[bool, ...],
    support: Images,
    labels: Int[Tensor, " support"],
    config: EpisodeConfig,
    steps: int,
) -> dict[str, Tensor]:
    """The weights after some steps of gradient descent on the supports."""

    def loss(current: dict[str, Tensor]) -> Float[Tensor, ""]:
        return F.cross_entropy(scores_of(current, relus, support, len(support)), labels)

    current = dict(weights)
    for _ in range(steps):
        gradients = grad(loss)(current)
        if config.first_order:
            gradients = {name: gradient.detach() for name, gradient in gradients.items()}
        current = {name: value - config.inner_learning_rate * gradients[name] for name, value in current.items()}
    return current


def adapted_alone(
    weights: Weights,
    relus: tuple[bool, ...],
    support: Images,
    labels: Int[Tensor, " support"],
    rate: float,
    steps: int,
) -> dict[str, Tensor]:
    """The weights after some steps on the supports of one task, through which no gradient passes."""
    current = {name: value.detach() for name, value in weights.items()}
    for _ in range(steps):
        leaves = [value.requires_grad_() for value in current.values()]
        with torch.enable_grad():
            loss = F.cross_entropy(scores_of(current, relus, support, len(support), plain_norm), labels)
        gradients = torch.autograd.grad(loss, leaves)
        updated = (value.detach() - rate * gradient for value, gradient in zip(leaves, gradients, strict=True))
        current = dict(zip(current, updated, strict=True))
    return current


class Maml(nn.Module):
    """The module that is trained: initial weights of the network and of a linear classifier over the flattened map."""

    def __init__(self, network: Network, config: EpisodeConfig, locations: int) -> None:
        super().__init__()
        if not all(hasattr(block, "relu") for block in network.blocks):
            raise ConfigError("`method` maml trains plain convolutions: set `network` c64f or c128f")
        if network.balance is not None or any(block.pool != POOL for block in network.blocks):
            raise ConfigError(
                "`method` maml trains one network that ends in a max-pool: leave out `members`, `last_pool`"
            )
        self.network = network
        self.config = config
        self.own = nn.Linear(network.dim * locations, config.train_way)
        self.relus = tuple(block.relu is not None for block in network.blocks)

    @property
    def tau(self) -> float:
        """A placeholder: this system has no cosine to scale."""
        return 1.0

    def weights(self) -> dict[str, Tensor]:
        """The initial weights by name."""
        return dict(self.named_parameters())

    def forward(self, episodes: Episodes) -> Float[Tensor, " 2"]:
        """Loss and accuracy of the queries of some episodes, each after its own inner steps."""
        support = episodes.images[:, :, : episodes.shot].flatten(1, 2)
        query = episodes.images[:, :, episodes.shot :].flatten(1, 2)
        labels = torch.arange(episodes.way, device=query.device).repeat_interleave(episodes.shot)
        scores = self.task_scores(self.weights(), support, query, labels, self.config.inner_steps)
        targets = episodes.labels().expand(len(scores), -1)
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        return torch.stack([loss, (scores.detach().argmax(-1) == targets).float().mean()])

    def task_scores(
        self,
        weights: Weights,
        support: Float[Tensor, "task support 3 height width"],
        query: Float[Tensor, "task query 3 height width"],
        labels: Int[Tensor, " support"],
        steps: int,
    ) -> Float[Tensor, "task query way"]:
        """The scores of the queries of each task after its inner steps."""

        def one(weights: Weights, support: Tensor, query: Tensor) -> Tensor:
            learned = adapted(weights, self.relus, support, labels, self.config, steps)
            return scores_of(learned, self.relus, torch.cat([support, query]), len(support))[len(support) :]

        return vmap(one, in_dims=(None, 0, 0))(dict(weights), support, query)

    @torch.no_grad()
    def scores_in_turn(
        self,
        support: Float[Tensor, "task support 3 height width"],
        query: Float[Tensor, "task query 3 height width"],
        labels: Int[Tensor, " support"],
        steps: int,
    ) -> Float[Tensor, "task query way"]:
        """The same as `task_scores`, one task after the other and without second derivatives."""
        weights, rate = self.weights(), self.config.inner_learning_rate

        def one(images: Images, supports: int) -> Tensor:
            images = images.contiguous(memory_format=torch.channels_last)
            learned = adapted_alone(weights, self.relus, images[:supports], labels, rate, steps)
            return scores_of(learned, self.relus, images, supports, plain_norm)[supports:]

        return torch.stack([one(torch.cat(both), len(both[0])) for both in zip(support, query, strict=True)])


@dataclass(frozen=True)
class MamlMethod:
    """Inner steps on the supports of each task."""

    learner: Maml
    images: UInt8[Tensor, "image height width 3"]
    normalisation: Normalisation
    tasks_at_once: int = 8

    @torch.no_grad()
    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        device = next(self.learner.parameters()).device
        support, query = (self._pixels(indices.flatten(1), device) for indices in (tasks.support, tasks.query))
        labels = torch.arange(tasks.support.shape[1], device=device).repeat_interleave(tasks.support.shape[2])
        steps = self.learner.config.inner_test_steps
        if device.type == "cpu":
            scores = self.learner.scores_in_turn(support, query, labels, steps)
        else:
            scores = self.learner.task_scores(self.learner.weights(), support, query, labels, steps)
        return named(tasks, scores.argmax(-1))

    def _pixels(self, indices: Int[Tensor, "task image"], device: torch.device) -> Tensor:
        return self.normalisation(self.images[indices.flatten()].to(device)).unflatten(0, indices.shape)

    def __str__(self) -> str:
        return f"MAML ({self.learner.config.inner_test_steps} steps)"
