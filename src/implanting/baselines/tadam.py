"""TADAM: prototypical networks whose network is conditioned on the task, and whose metric has a learned scale.

Oreshkin, Rodriguez & Lacoste, "TADAM: Task dependent adaptive metric for improved few-shot learning", 2018, arXiv
1805.10123. The mean of a task's prototypes, made by the unconditioned network, is the task's code c. From it, two small
networks per convolution l predict a scale and a shift of each channel (FiLM), applied after batch norm and before the
activation,

    gamma_l = 1 + g0_l G_l(c),    beta_l = b0_l B_l(c),    h_l -> gamma_l * h_l + beta_l,

and with prototypes p_j of the conditioned network a query has the scores -alpha |phi(x) - p_j|^2. The multipliers g0
and b0 are penalised by `PENALTY` times their squares, so that a layer is conditioned only where it pays.

Co-training: a step of training is, with a probability of 0.9^k in the k-th twentieth of training, one of
classification among all base classes by a linear layer on the unconditioned network, and else an episode.

Choices: G_l and B_l have three layers, a projection, a residual one and a linear one; g0 and b0 begin at 0, so that
training begins as prototypical networks; alpha begins at `tau`, and its logarithm is learned, so that it stays
positive, and 0.01 with Adam at 3e-3 was the best of eight settings (docs/lab-log.md); SGD at the published rate of 0.1
diverged within 72 steps; gap-pooled maps; batch-norm statistics are collected over conditioned and unconditioned maps.
At test every task sends its images through the network again: only the task's code can be computed once per image.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from implanting.baselines.episodes import Episodes, figures_of
from implanting.baselines.prototypical_networks import negative_squared_distances
from implanting.baselines.vectors import Vectors
from implanting.config import PretrainConfig
from implanting.dense_classification import locations, pool
from implanting.fewshot import Queries, Tasks, named
from implanting.images import Normalisation
from implanting.networks import Network

PENALTY = 0.01
TWENTIETHS = 20

Film = tuple[Float[Tensor, "task _"], Float[Tensor, "task _"]]
"""The scale and the shift of each channel of a convolution."""
Images = Float[Tensor, "image 3 height width"]


class Predictor(nn.Module):
    """G_l or B_l: from a task's code to one number per channel."""

    decayed = False
    """No weight decay: the multipliers are penalised. While these are near 0 there is hardly a gradient, and Adam,
    which scales what there is, would turn decay alone into full steps towards zero."""

    def __init__(self, code: int, channels: int) -> None:
        super().__init__()
        self.project, self.residual = nn.Linear(code, channels), nn.Linear(channels, channels)
        self.predict = nn.Linear(channels, channels)
        self.multiplier = nn.Parameter(torch.zeros(()))

    def forward(self, code: Float[Tensor, "task dim"]) -> Float[Tensor, "task channel"]:
        hidden = F.relu(self.project(code))
        hidden = F.relu(hidden + self.residual(hidden))
        return self.multiplier * self.predict(hidden)


class TaskEncoder(nn.Module):
    """The further parameters of TADAM: conditioning, the scale of the metric, and the layer of co-training."""

    def __init__(self, channels: Sequence[int], dim: int, classes: int, alpha: float) -> None:
        super().__init__()
        self.scales = nn.ModuleList(Predictor(dim, width) for width in channels)
        self.shifts = nn.ModuleList(Predictor(dim, width) for width in channels)
        self.log_alpha = nn.Parameter(torch.tensor(math.log(alpha)))
        self.auxiliary = nn.Linear(dim, classes)

    def forward(self, code: Float[Tensor, "task dim"]) -> list[Film]:
        """Scales and shifts of all convolutions in turn."""
        return [(1 + scale(code), shift(code)) for scale, shift in zip(self.scales, self.shifts, strict=True)]

    def penalty(self) -> Float[Tensor, ""]:
        """The penalty of the multipliers."""
        return PENALTY * sum(predictor.multiplier.square() for predictor in (*self.scales, *self.shifts))


def convolution_channels(network: Network) -> list[int]:
    """The channels of the convolutions that are conditioned: all but the shortcuts."""
    norms = [layer for name, layer in network.named_modules() if name.rpartition(".")[2].startswith("norm")]
    return [norm.num_features for norm in norms if isinstance(norm, nn.BatchNorm2d)]


def conditioned(network: Network, images: Images, films: Sequence[Film], tasks: int) -> Tensor:
    """The network's map with every convolution conditioned; images of the first task, then those of the second, ..."""
    each = len(images) // tasks
    per_image = iter([tuple(part.repeat_interleave(each, 0)[:, :, None, None] for part in film) for film in films])

    def film(maps: Tensor) -> Tensor:
        scale, shift = next(per_image)
        return torch.addcmul(shift, scale, maps)

    return network.changed(images, film)


class Tadam(nn.Module):
    """The module that is trained: the network and the task encoder."""

    def __init__(self, network: Network, config: PretrainConfig, classes: int) -> None:
        super().__init__()
        self.network = network
        self.config = config
        self.own = TaskEncoder(convolution_channels(network), network.dim, classes, config.tau)

    @property
    def tau(self) -> float:
        """The current scale of the metric."""
        return self.own.log_alpha.exp().item()

    def _pooled(self, maps: Float[Tensor, "image dim height width"]) -> Float[Tensor, "image dim"]:
        return pool(locations(maps), self.config.pooling).squeeze(1)

    def vectors(self, images: Images, code: Float[Tensor, "task dim"]) -> Float[Tensor, "image dim"]:
        """The vectors of the images of some tasks, with the network conditioned on each task."""
        return self._pooled(conditioned(self.network, images, self.own(code), len(code)))

    def scores(
        self, query: Float[Tensor, "task query dim"], prototypes: Float[Tensor, "task way dim"]
    ) -> Float[Tensor, "task query way"]:
        """-alpha |q - p|^2."""
        return self.own.log_alpha.exp() * negative_squared_distances(query, prototypes)

    def forward(self, episodes: Episodes) -> Float[Tensor, " 2"]:
        """Loss and accuracy of some episodes or, if there are further images, of these among the base classes."""
        if episodes.further is not None and episodes.further_labels is not None:
            logits = self.own.auxiliary(self._pooled(self.network(episodes.further)))
            return figures_of(logits[None], episodes.further_labels)
        supports = episodes.images[:, :, : episodes.shot].flatten(0, 2)
        unconditioned = self._pooled(self.network(supports.contiguous(memory_format=torch.channels_last)))
        code = unconditioned.unflatten(0, (len(episodes.images), -1)).mean(1)
        support, query = episodes.split(self.vectors(episodes.all_images(), code))
        figures = figures_of(self.scores(query.flatten(1, 2), support.mean(2)), episodes.labels())
        return figures + torch.stack([self.own.penalty(), figures.new_zeros(())])


def co_trains(share: float, progress: float, drawn: float) -> bool:
    """Whether the step at `progress` (0 to 1) is one of co-training, by a number drawn from 0 to 1."""
    return drawn < share ** int(TWENTIETHS * progress) if share else False


@dataclass(frozen=True)
class TadamMethod:
    """Prototypes of a network that is conditioned on each task."""

    learner: Tadam
    images: UInt8[Tensor, "image height width 3"]
    normalisation: Normalisation
    unconditioned: Vectors
    """The vector of each image by the unconditioned network; the codes of tasks are means of them."""
    tasks_at_once: int = 1  # maps of more tasks do not fit in the processor's cache

    @torch.inference_mode()
    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        code = self.unconditioned[tasks.support].mean((1, 2))
        support, query = (self._vectors(indices, code) for indices in (tasks.support, tasks.query))
        return named(tasks, self.learner.scores(query.flatten(1, 2), support.mean(2)).argmax(-1))

    def _vectors(self, indices: Int[Tensor, "task way image"], code: Float[Tensor, "task dim"]) -> Tensor:
        images = self.normalisation(self.images[indices.flatten()].to(code.device))
        return self.learner.vectors(images, code).unflatten(0, indices.shape)

    def __str__(self) -> str:
        return "TADAM"
