"""Dynamic few-shot learning without forgetting: a generator of class weights that attends to those of the base classes.

Gidaris & Komodakis, "Dynamic Few-Shot Visual Learning without Forgetting", 2018, arXiv 1804.09458. Stage 1 is a
cosine classifier with weights w_b of the base classes b. With z_i the supports of a novel class at unit length, its
weight is

    w' = phi_avg * mean_i z_i + phi_att * mean_i sum_b a_ib w_b / |w_b|,
    a_i = softmax_b(gamma cos(Q z_i, k_b)),

where * is by element; phi_avg, phi_att, the matrix Q with its bias, the keys k_b and gamma are learned in stage 2,
together with all w_b and tau, while the network stays frozen. In an episode, some base classes play the novel ones:
their own weights and keys are left out, weights are generated from their supports, and queries of these and of the
other base classes are classified among all of them by s_tau.

Choices: initial values as published (phi_avg, phi_att and Q one, the keys at random, gamma 10); the map is pooled as
stage 1 did, a dense one by gap (the original flattens C128F's); as many base queries as novel ones. The recipe does not
augment images in stage 2, so the frozen network sees each image once.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from implanting.baselines.episodes import Episodes
from implanting.baselines.joint import Joint, JointQueries
from implanting.baselines.vectors import Vectors, gathered
from implanting.config import PretrainConfig
from implanting.dense_classification import CosineClassifier, locations, pool, scaled_cosine
from implanting.fewshot import Queries, Tasks, named
from implanting.networks import Network

GAMMA = 10.0


class WeightGenerator(nn.Module):
    """Weights of novel classes from the vectors of their supports and from the weights of base classes."""

    def __init__(self, classes: int, dim: int) -> None:
        super().__init__()
        self.average_scale = nn.Parameter(torch.ones(dim))
        self.attention_scale = nn.Parameter(torch.ones(dim))
        self.query = nn.Linear(dim, dim)
        self.query.weight.data = torch.eye(dim) + 0.001 * torch.randn(dim, dim)
        self.query.bias.data.zero_()
        self.keys = nn.Parameter(torch.randn(classes, dim) * math.sqrt(2 / dim))
        self.gamma = nn.Parameter(torch.tensor(GAMMA))

    def forward(
        self,
        supports: Float[Tensor, "task way shot dim"],
        class_weights: Float[Tensor, "base_class dim"],
        left_out: Bool[Tensor, "task base_class"] | None = None,
    ) -> Float[Tensor, "task way dim"]:
        """The weights of the novel classes of each task; base classes that are left out get no attention."""
        directions = F.normalize(supports, dim=-1)
        cosines = scaled_cosine(self.query(directions).flatten(1, 2), self.keys, self.gamma)
        if left_out is not None:
            cosines = cosines.masked_fill(left_out[:, None], -torch.inf)
        attended = (cosines.softmax(-1) @ F.normalize(class_weights, dim=-1)).unflatten(1, supports.shape[1:3])
        return self.average_scale * directions.mean(2) + self.attention_scale * attended.mean(2)


class DynamicFewShot(nn.Module):
    """The module that stage 2 trains: the generator, the class weights and tau, with a frozen network."""

    def __init__(self, network: Network, classifier: CosineClassifier, config: PretrainConfig) -> None:
        super().__init__()
        self.network = network.requires_grad_(False).eval()
        self.classifier = classifier
        self.pooling = config.pooling
        self.own = WeightGenerator(*classifier.class_weights.shape)

    @property
    def tau(self) -> float:
        """The current scale of the cosine."""
        return self.classifier.tau.item()

    def train(self, mode: bool = True) -> "DynamicFewShot":
        """The network keeps the statistics of stage 1."""
        super().train(mode)
        self.network.eval()
        return self

    @torch.no_grad()
    def vectors(self, images: Float[Tensor, "image ..."]) -> Float[Tensor, "image dim"]:
        """One vector per image; images that are vectors already stay as they are."""
        return images if images.ndim == 2 else pool(locations(self.network(images)), self.pooling).squeeze(1)

    def forward(self, episodes: Episodes) -> Float[Tensor, " 2"]:
        """Loss and accuracy over the queries of fictitious novel classes and of the other base classes."""
        further_images, further_labels = episodes.of_base_classes()
        vectors = self.vectors(torch.cat([episodes.all_images(), further_images]))
        of_tasks, further = vectors.split([len(vectors) - len(further_images), len(further_images)])
        support, query = episodes.split(of_tasks)
        tasks, base_weights = len(support), self.classifier.class_weights
        fictitious = torch.zeros(tasks, len(base_weights), dtype=torch.bool, device=vectors.device)
        fictitious = fictitious.scatter(1, episodes.classes, True)
        weights = torch.cat([base_weights.expand(tasks, -1, -1), self.own(support, base_weights, fictitious)], dim=1)
        queries = torch.cat([query.flatten(1, 2), further.unflatten(0, (tasks, -1))], dim=1)
        scores = scaled_cosine(queries, weights, self.classifier.tau)
        closed = torch.cat([fictitious, torch.zeros_like(episodes.classes, dtype=torch.bool)], dim=1)
        scores = scores.masked_fill(closed[:, None], -torch.inf)
        novel = len(base_weights) + episodes.labels().expand(tasks, -1)
        labels = torch.cat([novel, further_labels.unflatten(0, (tasks, -1))], dim=1)
        loss = F.cross_entropy(scores.flatten(0, 1), labels.flatten())
        return torch.stack([loss, (scores.detach().argmax(-1) == labels).float().mean()])


@dataclass(frozen=True)
class DynamicMethod:
    """Generated weights for each task's novel classes, alone or together with those of the base classes."""

    vectors: Vectors
    generator: WeightGenerator
    class_weights: Float[Tensor, "base_class dim"]
    joint: JointQueries | None = None
    tasks_at_once: int = 64

    @torch.inference_mode()
    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        generated = self.generator(self.vectors[tasks.support], self.class_weights)
        if self.joint is None:
            return named(tasks, scaled_cosine(gathered(self.vectors, tasks).queries, generated, 1.0).argmax(-1))
        base = self.class_weights.expand(len(tasks), -1, -1)
        return Joint(self.vectors, self.joint)(tasks, torch.cat([base, generated], dim=1))

    def __str__(self) -> str:
        return "generated weights (Gidaris & Komodakis)"
