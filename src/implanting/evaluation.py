"""Tasks to accuracies to mean and 95 % interval.

The interval is over the sampling of tasks: it says how far the mean of other tasks from the same images may lie, not
how another training run would do. Methods compared on the same tasks differ by a *paired* interval, which is smaller.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.config import InferenceConfig, TaskConfig
from implanting.datasets import ImageSet
from implanting.errors import ConfigError
from implanting.inference import PrototypeClassifier, prototype_classifier, right_answers
from implanting.progress import Progress, silent
from implanting.tasks import Tasks, draw_tasks

TASKS, POOLING = TaskConfig(), InferenceConfig()


@dataclass(frozen=True)
class Estimate:
    """A mean over tasks and the half-width of its 95 % interval, 1.96 sd / sqrt(tasks); fractions, not per cent."""

    mean: float
    interval: float
    tasks: int

    @classmethod
    def of(cls, values: Float[np.ndarray, "task"]) -> "Estimate":
        """The mean of per-task values."""
        deviation = values.std(ddof=1) if len(values) > 1 else float("nan")
        return cls(float(values.mean()), float(1.96 * deviation / np.sqrt(len(values))), len(values))

    def __str__(self) -> str:
        return f"{100 * self.mean:.2f} ± {100 * self.interval:.2f}"


@dataclass(frozen=True)
class Result:
    """The accuracy of one method on each of many tasks."""

    method: str
    config: TaskConfig
    images: str
    """The fingerprint of the image set that the tasks were drawn from."""
    per_task: Float[np.ndarray, "task"]

    @property
    def estimate(self) -> Estimate:
        """Mean and interval together."""
        return Estimate.of(self.per_task)

    @property
    def mean(self) -> float:
        """Mean accuracy, a fraction."""
        return self.estimate.mean

    @property
    def interval(self) -> float:
        """Half-width of the 95 % interval of the mean, over the sampling of tasks."""
        return self.estimate.interval

    def gain_over(self, other: "Result") -> Estimate:
        """The paired difference to another method on the same tasks."""
        if (self.config, self.images) != (other.config, other.images):
            ours, theirs = (f"{result.config} of images {result.images[:8]}" for result in (self, other))
            raise ConfigError(f"a paired difference needs the same tasks; these are {ours} and {theirs}")
        return Estimate.of(self.per_task - other.per_task)


def evaluate(
    base: BaseNetwork,
    image_set: ImageSet,
    *,
    way: int = TASKS.way,
    shot: int = TASKS.shot,
    queries: int = TASKS.queries,
    tasks: int = TASKS.tasks,
    seed: int = TASKS.seed,
    support_pooling: Literal["gap", "gmp"] = POOLING.support_pooling,
    query_pooling: Literal["gap", "gmp", "dense"] | None = POOLING.query_pooling,
    progress: Progress = silent,
) -> Result:
    """Few-shot accuracy of a base network on the classes of an image set."""
    config = TaskConfig(way, shot, queries, tasks, seed)
    drawn = draw_tasks(image_set, config)
    classify = prototype_classifier(
        base.description.config.pooling, base.tau, InferenceConfig(support_pooling, query_pooling)
    )
    return evaluate_embedded(base.embed(image_set.images, progress), drawn, config, classify)


def evaluate_embedded(
    phi: Float[Tensor, "image location dim"], drawn: Tasks, config: TaskConfig, classify: PrototypeClassifier
) -> Result:
    """Accuracy on each task, from features that have been computed already."""
    with torch.inference_mode():
        per_task = right_answers(phi, drawn, classify).double().mean((1, 2))
    return Result(str(classify), config, drawn.images, per_task.cpu().numpy())
