"""Logistic regression on features of unit length, the network frozen.

Tian, Wang, Krishnan, Tenenbaum & Isola, "Rethinking Few-Shot Image Classification: a Good Embedding Is All You Need?"
(RFS), 2020, arXiv 2003.11539. With z of unit length, the class weights and biases minimise

    C sum_i CE(softmax_j(<w_j, z_i> + b_j), y_i) + 1/2 sum_j |w_j|^2,

scikit-learn's objective. Choices: gap-pooled features; C is chosen on validation classes; all tasks of a batch are
solved together (`fewshot.logistic_regression`).
"""

from dataclasses import dataclass

import torch

from implanting.baselines.vectors import Vectors, gathered_directions
from implanting.config import RivalConfig
from implanting.fewshot import Queries, Tasks, logistic_regression, named


@dataclass(frozen=True)
class LogisticMethod:
    """A logistic regression per task."""

    vectors: Vectors
    config: RivalConfig
    tasks_at_once: int = 128

    @torch.inference_mode()
    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        task = gathered_directions(self.vectors, tasks)
        labels = task.labels.to(task.supports.device)[None]
        fitted = logistic_regression(task.supports, labels, 1 / self.config.logistic_strength)
        return named(tasks, fitted.scores(task.queries).argmax(-1))

    def __str__(self) -> str:
        return f"logistic regression (C {self.config.logistic_strength:g})"
