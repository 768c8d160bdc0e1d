"""Inference: prototypes from pooled supports, then queries by cosine (eq. pred) or densely (eq. pred-dc)."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from implanting.config import InferenceConfig, Pooling
from implanting.similarity import pool, probabilities, prototypes, scaled_cosine


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
        return f"{self.support_pooling}/{self.query_pooling}"


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
