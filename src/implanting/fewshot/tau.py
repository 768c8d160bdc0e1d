"""Choose tau on validation images for a base network that has not learned one.

Tau is the scale of the cosine. It does not change which class is nearest to a pooled query, but it sets the confidence
of the answer and, for dense queries, how much a confident location outweighs the others. The best tau depends on the
pooling of queries (overconfident locations can still average to a good probability), so it is chosen for the base's
default pooling.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.config import InferenceConfig, Pooling, TaskConfig, TestPooling
from implanting.datasets import ImageSet
from implanting.dense_classification import PrototypeClassifier, prototype_classifier
from implanting.fewshot.by_prototypes import PrototypeMethod
from implanting.fewshot.tasks import draw_tasks
from implanting.runtime import Progress, silent

CANDIDATES = torch.logspace(0, 3, 61)
"""Candidates for tau: 1 to 1000 in steps of 12 %, which is fine enough because the loss is flat near its minimum."""

VALIDATION = TaskConfig(way=5, shot=5, queries=15, tasks=100)
"""The tasks on which tau is chosen; they are smaller if there are fewer classes or images."""


def with_tau_from(base: BaseNetwork, image_set: ImageSet, progress: Progress = silent) -> BaseNetwork:
    """Return the base network with tau chosen on these images, whose classes should be new to it."""
    query_pooling = prototype_classifier(base.pooling, 1.0, InferenceConfig()).query_pooling
    return base.with_tau(choose_tau(base.embed(image_set.images, progress), image_set, query_pooling))


def choose_tau(
    phi: Float[Tensor, "image location dim"],
    image_set: ImageSet,
    query_pooling: Pooling | TestPooling,
    config: TaskConfig = VALIDATION,
) -> float:
    """Find the tau that minimises the cross-entropy of queries, given their pooling and gap-pooled supports."""
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
    """Cross-entropy of the probabilities that inference gives, averaged over locations (Eq. 14)."""
    probabilities = (tau * cosines).softmax(-1).mean(1)
    return -probabilities.gather(1, truth[:, None]).clamp_min(1e-30).log().mean()
