"""A tau for a base network that has not learned one: chosen on validation images.

Tau is the scale of the cosine: it does not change which class is nearest to a pooled query, but how sure the answer
is and, for dense queries, how much a location that is sure outweighs the others. The best tau depends on how queries
are pooled (many locations that are each too sure still average to a fair probability), so it is chosen for the pooling
with which the base answers by default.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.config import InferenceConfig, Pooling, TaskConfig
from implanting.datasets import ImageSet
from implanting.dense_classification import pool, prototype_classifier
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
    cosines, truth = task_cosines(phi, image_set, query_pooling, fitting)
    losses = torch.stack([cross_entropy(cosines, truth, float(tau)) for tau in CANDIDATES])
    return float(CANDIDATES[losses.argmin()])


@torch.inference_mode()
def task_cosines(
    phi: Float[Tensor, "image location dim"], image_set: ImageSet, query_pooling: Pooling, config: TaskConfig
) -> tuple[Float[Tensor, "query pooled way"], Int[Tensor, " query"]]:
    """The cosine of each query's locations with the prototypes of its task, and its class's place in the task."""
    tasks = draw_tasks(image_set, config)
    directions, vectors = F.normalize(pool(phi, query_pooling), dim=-1), pool(phi, "gap").squeeze(1)
    parts = []
    for support, query in zip(tasks.support, tasks.query, strict=True):
        parts.append(directions[query.flatten()] @ F.normalize(vectors[support].mean(1), dim=-1).T)
    truth = torch.arange(config.way).repeat_interleave(config.queries).repeat(config.tasks)
    return torch.cat(parts), truth


def cross_entropy(
    cosines: Float[Tensor, "query pooled way"], truth: Int[Tensor, " query"], tau: float
) -> Float[Tensor, ""]:
    """Of the probabilities that inference gives: averaged over locations (Eq. 14)."""
    probabilities = (tau * cosines).softmax(-1).mean(1)
    return -probabilities.gather(1, truth[:, None]).clamp_min(1e-30).log().mean()
