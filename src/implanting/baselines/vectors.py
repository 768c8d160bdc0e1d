"""One vector per image, and those of the supports and queries of tasks: what the rivals on frozen features share."""

from dataclasses import dataclass

import torch
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


def pooled(phi: Float[Tensor, "image location dim"], pooling: Pooling) -> Float[Tensor, "image pooled_dim"]:
    """One vector per image, by the pooling of training; where each location was classified, by their mean."""
    return pool(phi, "gap" if pooling == "dense" else pooling).squeeze(1)
