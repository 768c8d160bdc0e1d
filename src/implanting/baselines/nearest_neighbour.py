"""Nearest neighbour: a query has the class of the support with which its cosine is largest.

Cover & Hart, "Nearest neighbor pattern classification", 1967. Choice: cosine, as for all methods on frozen features
here.
"""

from dataclasses import dataclass

import torch

from implanting.baselines.vectors import Vectors, gathered_directions
from implanting.fewshot import Queries, Tasks, named


@dataclass(frozen=True)
class NearestMethod:
    """The class of the nearest support."""

    vectors: Vectors
    tasks_at_once: int = 64

    @torch.inference_mode()
    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        task = gathered_directions(self.vectors, tasks)
        nearest = (task.queries @ task.supports.mT).argmax(-1)
        return named(tasks, task.labels.to(nearest.device)[nearest])

    def __str__(self) -> str:
        return "nearest neighbour"
