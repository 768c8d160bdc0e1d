"""Evaluation for users of the library: one approach on one shape of tasks."""

from typing import Literal

from implanting.base import BaseNetwork
from implanting.config import ImplantConfig, InferenceConfig, TaskConfig
from implanting.datasets import ImageSet
from implanting.evaluation.approaches import Approach, Classes, Trial
from implanting.evaluation.comparison import compare
from implanting.evaluation.task_images import TaskImages
from implanting.fewshot import Result
from implanting.runtime import Progress, silent

TASKS, POOLING = TaskConfig(), InferenceConfig()


def evaluate(
    base: BaseNetwork,
    image_set: ImageSet | None,
    *,
    way: int = TASKS.way,
    shot: int = TASKS.shot,
    queries: int = TASKS.queries,
    tasks: int = TASKS.tasks,
    seed: int = TASKS.seed,
    classes: Classes = "novel",
    base_images: ImageSet | None = None,
    implants: bool | ImplantConfig = False,
    support_pooling: Literal["gap", "gmp"] = POOLING.support_pooling,
    query_pooling: Literal["gap", "gmp", "dense"] | None = POOLING.query_pooling,
    support_views: int = POOLING.support_views,
    progress: Progress = silent,
) -> Result:
    """Few-shot accuracy of a base network on the classes of an image set, with implants or by prototypes alone.

    Implants need two supports per class, or two views of each (`adapt_views`): else prototypes answer, and the result's
    `method` says so. With `classes="base"` all base classes are told apart by their learned weights, on `base_images`
    that were not trained on (`image_set` may be None); with `"both"` they stand beside the novel classes of each task,
    and the rows and columns of `confusion` are the base classes, then the novel ones.
    """
    config = TaskConfig(way, shot, queries, tasks, seed)
    pooling = InferenceConfig(support_pooling, query_pooling, support_views)
    adapt = implants if isinstance(implants, ImplantConfig) else ImplantConfig() if implants else None
    trial = Trial(Approach(pooling, adapt, classes).reduced_to(shot), config)
    ((_, result),) = compare(base, TaskImages(image_set, base_images), [trial], progress=progress)
    return result
