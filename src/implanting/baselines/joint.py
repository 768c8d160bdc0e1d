"""Classification among base and novel classes together, by one weight per class and one vector per image."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from implanting.baselines.vectors import Vectors
from implanting.dense_classification import scaled_cosine
from implanting.fewshot import Queries, Tasks


@dataclass(frozen=True)
class JointQueries:
    """Queries of base classes: each novel task is paired with the base task of the same number."""

    vectors: Float[Tensor, "base_image dim"]
    tasks: Tasks


@dataclass(frozen=True)
class Joint:
    """Answers among all base classes and a task's novel ones; novel class c is called (base classes) + c."""

    novel: Vectors
    base: JointQueries

    def __call__(self, tasks: Tasks, weights: Float[Tensor, "task way dim"]) -> tuple[Queries, Queries]:
        """The truth and the answers; `weights` are those of base classes, then those of each task's novel classes."""
        base_tasks = self.base.tasks[int(tasks.numbers[0]) : int(tasks.numbers[-1]) + 1]
        base_classes = weights.shape[1] - tasks.classes.shape[1]
        queries = torch.cat([self.base.vectors[base_tasks.query], self.novel[tasks.query]], dim=1)
        answers = scaled_cosine(queries.flatten(1, 2), weights, 1.0).argmax(-1).cpu()
        names = torch.cat([torch.arange(base_classes).expand(len(tasks), -1), base_classes + tasks.classes], dim=1)
        truth = torch.cat([base_tasks.classes, base_classes + tasks.classes], dim=1)
        shape = (len(tasks), truth.shape[1], tasks.query.shape[2])
        return truth[:, :, None].expand(shape), names.gather(1, answers).view(shape)
