"""Baseline++: a cosine classifier trained on the supports of a task, the network frozen.

Chen, Liu, Kira, Wang & Huang, "A Closer Look at Few-shot Classification", 2019, arXiv 1904.04232. The class weights
W' minimise the cross-entropy of softmax_j s_tau(z, w_j) (Eqs. 7 and 8) over the supports z.

Choices: all supports in every step rather than batches of four; the weights begin at the class means of supports at
unit length rather than at random; AdamW; the fixed tau of implants. Tasks are an axis of the weights, and the loss is
summed over them, so that a step of all is a step of each.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from implanting.baselines.vectors import Vectors, gathered_directions
from implanting.config import ImplantConfig, RivalConfig
from implanting.dense_classification import scaled_cosine
from implanting.fewshot import Queries, Tasks, named
from implanting.runtime import AdamW

TAU = ImplantConfig.implant_tau
WEIGHT_DECAY = 1e-2


def fine_tuned(
    weights: Float[Tensor, "task way dim"],
    supports: Float[Tensor, "task support dim"],
    labels: Int[Tensor, "task support"],
    config: RivalConfig,
) -> Float[Tensor, "task way dim"]:
    """Class weights of each task, trained on its supports from their initial values."""
    with torch.enable_grad():
        weights = weights.clone().requires_grad_()
        optimizer = AdamW([weights], config.cosine_learning_rate, WEIGHT_DECAY)
        for _ in range(config.cosine_steps):
            scores = scaled_cosine(supports, weights, TAU)
            losses = F.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="sum") / labels.shape[1]
            optimizer.step(torch.autograd.grad(losses, [weights]))
    return weights.detach()


@dataclass(frozen=True)
class CosineFineTuningMethod:
    """Class weights trained on the supports of each task."""

    vectors: Vectors
    config: RivalConfig
    tasks_at_once: int = 64

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        with torch.no_grad():
            task = gathered_directions(self.vectors, tasks)
            labels = task.labels.to(task.supports.device).expand(len(task.supports), -1)
            weights = fine_tuned(task.class_means(), task.supports, labels, self.config)
            scores = scaled_cosine(task.queries, weights, TAU)
        return named(tasks, scores.argmax(-1))

    def __str__(self) -> str:
        return f"Baseline++ ({self.config.cosine_steps} steps)"
