"""Prototypical networks: a network trained on tasks to have each query near the prototype of its class.

Snell, Swersky & Zemel, "Prototypical Networks for Few-shot Learning", 2017, arXiv 1703.05175. With p_j the mean of
class j's supports (Eq. 1), a query x has the probabilities (Eqs. 2 and 3)

    f(x) = softmax_j s(phi(x), p_j),    s(u, v) = -|u - v|^2  or  s_tau(u, v) of Eq. 7,

and the cost of an episode is the mean cross-entropy of its queries (Eqs. 4 and 5). Prototypes are functions of the
network, so the gradient passes through them.

Choices: the map is pooled as `pooling` says (gap; the original flattens C64F's); tau is learned with the cosine and
is 1 with the Euclidean distance, as in the original; several episodes per step are averaged.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from implanting.baselines.episodes import Episodes, figures_of
from implanting.baselines.vectors import Vectors, gathered
from implanting.config import PretrainConfig
from implanting.dense_classification import locations, pool, scaled_cosine
from implanting.fewshot import Queries, Tasks, named
from implanting.networks import Network


def negative_squared_distances(
    queries: Float[Tensor, "*task query dim"], prototypes: Float[Tensor, "*task way dim"]
) -> Float[Tensor, "*task query way"]:
    """-|q - p|^2 without the difference of every pair: 2 <q, p> - |q|^2 - |p|^2."""
    squares = queries.square().sum(-1)[..., :, None] + prototypes.square().sum(-1)[..., None, :]
    return 2 * queries @ prototypes.mT - squares


@dataclass(frozen=True)
class PrototypicalMethod:
    """The class of the nearest prototype, by the distance of training."""

    vectors: Vectors
    distance: str
    tasks_at_once: int = 256

    @torch.inference_mode()
    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        task = gathered(self.vectors, tasks)
        score = negative_squared_distances if self.distance == "euclidean" else _cosines
        return named(tasks, score(task.queries, task.class_means()).argmax(-1))

    def __str__(self) -> str:
        return f"prototypical networks ({self.distance})"


def _cosines(
    queries: Float[Tensor, "task query dim"], prototypes: Float[Tensor, "task way dim"]
) -> Float[Tensor, "task query way"]:
    return scaled_cosine(queries, prototypes, 1.0)


class PrototypicalNetworks(nn.Module):
    """The module that is trained: the network and, with the cosine, tau."""

    def __init__(self, network: Network, config: PretrainConfig) -> None:
        super().__init__()
        self.network = network
        self.config = config
        self.own = nn.ParameterDict()
        if config.episode.distance == "cosine":
            self.own["tau"] = nn.Parameter(torch.tensor(config.tau))

    @property
    def tau(self) -> float:
        """The scale of the similarity."""
        return self.own["tau"].item() if "tau" in self.own else 1.0

    def scores(
        self, queries: Float[Tensor, "task query dim"], prototypes: Float[Tensor, "task way dim"]
    ) -> Float[Tensor, "task query way"]:
        """The similarity of queries with prototypes."""
        if "tau" in self.own:
            return scaled_cosine(queries, prototypes, self.own["tau"])
        return negative_squared_distances(queries, prototypes)

    def forward(self, episodes: Episodes) -> Float[Tensor, " 2"]:
        """Loss and accuracy of some episodes."""
        vectors = pool(locations(self.network(episodes.all_images())), self.config.pooling).squeeze(1)
        support, query = episodes.split(vectors)
        scores = self.scores(query.flatten(1, 2), support.mean(2))
        return figures_of(scores, episodes.labels())
