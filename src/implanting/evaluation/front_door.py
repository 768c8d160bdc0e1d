"""Evaluation for users of the library: one approach on one shape of tasks."""

from implanting.base import BaseNetwork
from implanting.config import (
    ImplantConfig,
    InferenceConfig,
    MethodName,
    RivalConfig,
    TaskConfig,
    TestPooling,
    TestQueryPooling,
)
from implanting.datasets import ImageSet
from implanting.evaluation.approaches import Approach, Classes, Trial, approach_of
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
    method: MethodName | None = None,
    rivals: RivalConfig | None = None,
    trained_images: ImageSet | None = None,
    support_pooling: TestPooling | None = POOLING.support_pooling,
    query_pooling: TestQueryPooling | None = POOLING.query_pooling,
    support_views: int = POOLING.support_views,
    query_views: int = POOLING.query_views,
    progress: Progress = silent,
) -> Result:
    """Few-shot accuracy of a base network on the classes of an image set, with implants or by prototypes alone.

    Implants need two supports per class, or two views of each (`adapt_views`): otherwise prototypes answer, and the
    `method` of the result says so. With `classes="base"` queries are classified among all base classes by the learned
    weights, on `base_images` that were not trained on (`image_set` may be None). With `"both"` they are classified
    among the base classes and the novel classes of each task together; the rows and columns of `confusion` are the base
    classes, then the novel ones.

    `method` names another method (`METHODS` lists them, `rivals` has their settings). A base that was trained by
    another system is tested as that system answers, unless a method is named. Some methods need `trained_images`,
    images that the base was trained on.
    """
    config = TaskConfig(way, shot, queries, tasks, seed)
    pooling = InferenceConfig(support_pooling, query_pooling, support_views, query_views)
    adapt = implants if isinstance(implants, ImplantConfig) else ImplantConfig() if implants else None
    if method is None and base.method != "cosine" and adapt is None:
        method = base.method
    approach = Approach(pooling, adapt, classes)
    if method is not None:
        approach = approach_of(method, pooling, adapt or ImplantConfig(), rivals or RivalConfig(), classes)
    trial = Trial(approach.reduced_to(shot), config)
    images = TaskImages(image_set, base_images, trained_images)
    ((_, result),) = compare(base, images, [trial], progress=progress)
    return result
