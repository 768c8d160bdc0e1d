"""A tau for a base network that has not learned one: chosen on validation images.

Tau is the scale of the cosine: it does not change which class is nearest to a pooled query, but how sure the answer
is and, for dense queries, how much a location that is sure outweighs the others. The best tau depends on how queries
are pooled (many locations that are each too sure still average to a fair probability), so it is chosen for the pooling
with which the base answers by default.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.config import InferenceConfig, Pooling, TaskConfig
from implanting.datasets import ImageSet
from implanting.dense_classification import PrototypeClassifier, prototype_classifier
from implanting.fewshot.by_prototypes import PrototypeMethod
from implanting.fewshot.tasks import draw_tasks
from implanting.runtime import Progress, silent

CANDIDATES = torch.logspace(0, 3, 61)
"""Values of tau that are tried: 1 to 1000, each 12 % above the one before; about its minimum the loss is flat."""

VALIDATION = TaskConfig(way=5, shot=5, queries=15, tasks=100)
"""The tasks on which tau is chosen; smaller where there are fewer classes or images."""


def with_tau_from(base: BaseNetwork, image_set: ImageSet, progress: Progress = silent) -> BaseNetwork:
    """The same base network with the tau that these images suggest; their classes should be new to it."""
    query_pooling = prototype_classifier(base.pooling, 1.0, InferenceConfig()).query_pooling
    return base.with_tau(choose_tau(base.embed(image_set.images, progress), image_set, query_pooling))


def choose_tau(
    phi: Float[Tensor, "image location dim"],
    image_set: ImageSet,
    query_pooling: Pooling,
    config: TaskConfig = VALIDATION,
) -> float:
    """The tau of least cross-entropy of queries, so pooled, with prototypes of gap-pooled supports."""
    smallest, way = image_set.smallest_class, min(config.way, len(image_set.class_names))
    shot = min(config.shot, max(1, smallest // 2))
    fitting = TaskConfig(way, shot, max(1, min(config.queries, smallest - shot)), config.tasks, config.seed)
    method = PrototypeMethod(phi, PrototypeClassifier("gap", query_pooling, 1.0))
    cosines, truth = method.cosines(draw_tasks(image_set, fitting))
    losses = torch.stack([cross_entropy(cosines, truth, float(tau)) for tau in CANDIDATES])
    return float(CANDIDATES[losses.argmin()])


def cross_entropy(
    cosines: Float[Tensor, "query pooled way"], truth: Int[Tensor, " query"], tau: float
) -> Float[Tensor, ""]:
    """Of the probabilities that inference gives: averaged over locations (Eq. 14)."""
    probabilities = (tau * cosines).softmax(-1).mean(1)
    return -probabilities.gather(1, truth[:, None]).clamp_min(1e-30).log().mean()
