"""One vector per image, and the vectors of the supports and queries of tasks, for all methods on frozen features."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from implanting.config import Pooling
from implanting.dense_classification import pool
from implanting.fewshot import Tasks

Vectors = Float[Tensor, "image dim"]
Supports = Float[Tensor, "task support dim"]
Queries = Float[Tensor, "task query dim"]


@dataclass(frozen=True)
class Gathered:
    """The vectors of some tasks; supports and queries are in the order of their classes."""

    supports: Supports
    queries: Queries
    way: int

    @property
    def labels(self) -> Int[Tensor, " support"]:
        """The class of each support within its task."""
        return torch.arange(self.way).repeat_interleave(self.supports.shape[1] // self.way)

    def class_means(self) -> Float[Tensor, "task way dim"]:
        """The mean of each class's supports."""
        return self.supports.unflatten(1, (self.way, -1)).mean(2)


def gathered(vectors: Vectors, tasks: Tasks) -> Gathered:
    """The vectors of the supports and queries of some tasks."""
    support, query = tasks.support.flatten(1), tasks.query.flatten(1)
    return Gathered(vectors[support], vectors[query], tasks.support.shape[1])


def gathered_directions(vectors: Vectors, tasks: Tasks) -> Gathered:
    """The vectors of the supports and queries of some tasks, each at unit length."""
    task = gathered(vectors, tasks)
    return Gathered(F.normalize(task.supports, dim=-1), F.normalize(task.queries, dim=-1), task.way)


def pooled(phi: Float[Tensor, "image location dim"], pooling: Pooling) -> Float[Tensor, "image pooled_dim"]:
    """One vector per image, by the pooling of training; where each location was classified, by their mean."""
    return pool(phi, "gap" if pooling == "dense" else pooling).squeeze(1)
