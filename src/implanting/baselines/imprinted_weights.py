"""Imprinted weights: the classes of a task become class weights, in addition to those of the base classes.

Qi, Brown & Lowe, "Low-Shot Learning with Imprinted Weights", 2018, arXiv 1712.07136; the paper's Eqs. 6 to 8. Stage 1
is a cosine classifier over pooled or flattened maps (`pretrain --pooling gap | flatten`). With z of unit length, the
weight of a novel class is the mean of its supports' z at unit length, and W' = [W, P] answers for base and novel
classes together.

Fine-tuning (`imprint_steps`): W' goes on to minimise the cross-entropy of s_tau (Eq. 8) on the supports and on base
images, each class equally often. Choices: the original fine-tunes the whole network, which thousands of tasks do not
allow; here the network stays frozen, and so features are computed once. Without class weights, or where only novel
classes are classified and nothing is fine-tuned, P alone answers.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Generator, Tensor

from implanting.baselines.joint import Joint, JointQueries
from implanting.baselines.vectors import Vectors, gathered, gathered_directions
from implanting.config import RivalConfig
from implanting.dense_classification import scaled_cosine
from implanting.fewshot import Queries, Tasks, named
from implanting.runtime import AdamW, Stream, generator_of

SAMPLES = 5
"""Images of each class in a step of fine-tuning."""


@dataclass(frozen=True)
class BaseExamples:
    """Images of base classes that the base was trained on, as vectors."""

    vectors: Float[Tensor, "image dim"]
    indices_by_class: list[Int[Tensor, " chosen"]]

    def drawn(self, generator: Generator) -> Float[Tensor, "base_class sample dim"]:
        """Some images of each class."""
        rows = [
            indices[torch.randint(len(indices), (SAMPLES,), generator=generator)] for indices in self.indices_by_class
        ]
        return self.vectors[torch.stack(rows)]


@dataclass(frozen=True)
class ImprintedMethod:
    """Class weights imprinted from the supports of each task."""

    vectors: Vectors
    tau: float
    config: RivalConfig
    class_weights: Float[Tensor, "base_class dim"] | None = None
    examples: BaseExamples | None = None
    """Images of base classes for fine-tuning."""
    joint: JointQueries | None = None
    """Queries of base classes, if base and novel classes are classified together."""
    tasks_at_once: int = 64

    def imprinted(self, tasks: Tasks) -> Float[Tensor, "task way dim"]:
        """The weights of the novel classes, before any fine-tuning."""
        return F.normalize(gathered_directions(self.vectors, tasks).class_means(), dim=-1)

    def weights(self, tasks: Tasks) -> Float[Tensor, "task way dim"]:
        """The weights of all classes; those of base classes, if there are any, come first."""
        weights = self.imprinted(tasks)
        if self.class_weights is not None:
            base = F.normalize(self.class_weights, dim=-1).expand(len(tasks), -1, -1)
            weights = torch.cat([base, weights], dim=1)
        return self._fine_tuned(tasks, weights) if self.config.imprint_steps else weights

    def _fine_tuned(self, tasks: Tasks, weights: Float[Tensor, "task way dim"]) -> Float[Tensor, "task way dim"]:
        task, way = gathered_directions(self.vectors, tasks), weights.shape[1]
        supports = task.supports.unflatten(1, (task.way, -1))
        generators = [generator_of(0, Stream.EPISODES, number) for number in tasks.numbers.tolist()]
        labels = torch.arange(way).repeat_interleave(SAMPLES).repeat(len(tasks))
        with torch.enable_grad():
            weights = weights.clone().requires_grad_()
            optimizer = AdamW([weights], self.config.imprint_learning_rate, 0.0)
            for _ in range(self.config.imprint_steps):
                images = torch.stack([self._drawn(*task) for task in zip(supports, generators, strict=True)])
                scores = scaled_cosine(images.flatten(1, 2), weights, self.tau)
                losses = F.cross_entropy(scores.flatten(0, 1), labels, reduction="sum") * len(tasks) / len(labels)
                optimizer.step(torch.autograd.grad(losses, [weights]))
        return weights.detach()

    def _drawn(
        self, supports: Float[Tensor, "way shot dim"], generator: Generator
    ) -> Float[Tensor, "classes sample dim"]:
        """The images of a step of one task: some supports of each of its classes and, before them, base images."""
        chosen = supports[:, torch.randint(supports.shape[1], (SAMPLES,), generator=generator)]
        if self.examples is None:
            return chosen
        return torch.cat([F.normalize(self.examples.drawn(generator), dim=-1), chosen])

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        with torch.no_grad():
            weights = self.weights(tasks)
            if self.joint is not None:
                return Joint(self.vectors, self.joint)(tasks, weights)
            novel = weights[:, -tasks.support.shape[1] :]
            return named(tasks, scaled_cosine(gathered(self.vectors, tasks).queries, novel, 1.0).argmax(-1))

    def __str__(self) -> str:
        tuned = f", fine-tuned for {self.config.imprint_steps} steps" if self.config.imprint_steps else ""
        return f"imprinted weights{tuned}"
