"""Inference: prototypes from pooled supports, then queries by cosine (eq. pred) or densely (eq. pred-dc).

Many tasks at once, on features computed once for all images.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from implanting.config import InferenceConfig, Pooling
from implanting.similarity import pool, probabilities, prototypes, scaled_cosine
from implanting.tasks import Tasks

TASKS_AT_ONCE = 64
"""Tasks classified in one operation; 64 of 150 queries keep the gathered features within the caches' reach."""


@dataclass(frozen=True)
class PrototypeClassifier:
    """How supports become prototypes and queries are scored."""

    support_pooling: Literal["gap", "gmp", "flatten"]
    query_pooling: Literal["gap", "gmp", "dense", "flatten"]
    tau: float

    def __call__(
        self,
        support: Float[Tensor, "task way shot location dim"],
        query: Float[Tensor, "task query location dim"],
    ) -> Float[Tensor, "task query way"]:
        """The probability of each of the task's classes for each query."""
        vectors = prototypes(pool(support, self.support_pooling))
        return probabilities(scaled_cosine(pool(query, self.query_pooling), vectors[:, None], self.tau))

    def __str__(self) -> str:
        return f"{self.support_pooling} supports, {self.query_pooling} queries"


def prototype_classifier(pooling: Pooling, tau: float, test: InferenceConfig) -> PrototypeClassifier:
    """How a base trained with `pooling` is tested.

    Queries are dense for a densely trained base, else gap, unless the caller says otherwise. A flatten-trained base has
    r x d prototypes: its features mean nothing away from their location.
    """
    if pooling == "flatten":
        return PrototypeClassifier("flatten", "flatten", tau)
    return PrototypeClassifier(
        test.support_pooling, test.query_pooling or ("dense" if pooling == "dense" else "gap"), tau
    )


def right_answers(
    phi: Float[Tensor, "image location dim"], tasks: Tasks, classify: PrototypeClassifier
) -> Bool[Tensor, "task way query"]:
    """Which queries of each task are given their own class."""
    return torch.cat([right_of_chunk(phi, chunk, classify) for chunk in chunks(tasks)])


def chunks(tasks: Tasks) -> list[Tasks]:
    """The tasks in order, a few at a time."""
    return [tasks[start : start + TASKS_AT_ONCE] for start in range(0, len(tasks), TASKS_AT_ONCE)]


def right_of_chunk(
    phi: Float[Tensor, "image location dim"], tasks: Tasks, classify: PrototypeClassifier
) -> Bool[Tensor, "task way query"]:
    """One chunk of `right_answers`."""
    answers = classify(phi[tasks.support], phi[tasks.query.flatten(1)]).argmax(-1)
    truth = torch.arange(tasks.query.shape[1], device=answers.device)
    return answers.view(tasks.query.shape) == truth[:, None]
