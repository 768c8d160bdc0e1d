"""Tasks to accuracies: a method answers every query, the tasks shared among all processes."""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, get_args

from jaxtyping import Float
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.config import ImplantConfig, InferenceConfig, TaskConfig, require
from implanting.datasets import ImageSet
from implanting.errors import ConfigError
from implanting.evaluation.comparison import Approach, Comparison, require_fit
from implanting.fewshot import (
    Counts,
    Result,
    Tasks,
    base_class_method,
    draw_queries,
    draw_tasks,
    evaluate_tasks,
    joint_method,
    require_class_weights,
    shared,
)
from implanting.implants import ImplantMethod, embed_together
from implanting.runtime import Progress, silent

Classes = Literal["novel", "base", "both"]
"""Which classes are told apart."""

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

    Implants need two supports a class, or two views of each (`adapt_views`): else prototypes answer, and the result's
    `method` says so. With `classes="base"` all base classes are told apart by their learned weights, on `base_images`
    that were not trained on (`image_set` may be None); with `"both"` they stand beside the novel classes of each task,
    and the rows and columns of `confusion` are the base classes, then the novel ones.
    """
    config = TaskConfig(way, shot, queries, tasks, seed)
    pooling = InferenceConfig(support_pooling, query_pooling, support_views)
    adapt = implants if isinstance(implants, ImplantConfig) else ImplantConfig() if implants else None
    check_classes(classes, adapt is not None, support_views)
    known = (
        None if classes == "novel" else KnownClasses.drawn(base, given(base_images, "base_images"), config, progress)
    )
    if known is not None and classes == "base":
        return known.alone(config, pooling)
    novel = given(image_set, "image_set")
    drawn, approach = draw_tasks(novel, config), Approach(pooling, adapt).at(shot)
    comparison = Comparison(base, novel, [approach], seed=seed, progress=progress)
    if known is not None:
        return known.beside(comparison, drawn, config, pooling)
    return evaluate_tasks(comparison.method(approach), drawn, config, len(novel.class_names), progress)


def check_classes(classes: Classes, implants: bool, views: int) -> None:
    """What is defined for novel classes only is refused for others."""
    require(classes in get_args(Classes), "classes", classes, f"one of {', '.join(get_args(Classes))}")
    if classes != "novel" and implants:
        raise ConfigError(f"`classes` {classes} is defined without implants: leave out `implants`")
    if classes != "novel" and views > 1:
        raise ConfigError(f"`classes` {classes} is defined without views: leave out `support_views`")


def given(images: ImageSet | None, name: str) -> ImageSet:
    """Images without which there is nothing to test."""
    if images is None:
        raise ConfigError(f"evaluate needs {name}: the images to test on")
    return images


class KnownClasses:
    """The base classes, and images of them that were not trained on; tasks say which of these count."""

    def __init__(self, base: BaseNetwork, image_set: ImageSet, tasks: Tasks, progress: Progress = silent) -> None:
        require_class_weights(base)
        require_fit(base, image_set)
        if image_set.class_names != base.class_names:
            raise ConfigError(f"{image_set.name} has other classes than {base.name}: its base classes are needed")
        self.base = base
        self.image_set = image_set
        self.tasks = tasks
        self.progress = progress

    @classmethod
    def drawn(
        cls, base: BaseNetwork, image_set: ImageSet, config: TaskConfig, progress: Progress = silent
    ) -> "KnownClasses":
        """With tasks of a seed."""
        return cls(base, image_set, draw_queries(image_set, config), progress)

    @cached_property
    def phi(self) -> Float[Tensor, "image location dim"]:
        """phi of each image."""
        return embed_together(self.base, self.image_set.images, self.progress)

    def alone(self, config: TaskConfig, pooling: InferenceConfig) -> Result:
        """All base classes by the learned weights; the number of shots makes no difference."""
        method = base_class_method(self.base, self.phi, pooling)
        return evaluate_tasks(method, self.tasks, config, len(self.image_set.class_names), self.progress)

    def beside(self, novel: Comparison, tasks: Tasks, config: TaskConfig, pooling: InferenceConfig) -> Result:
        """Base and novel classes together: weights and prototypes side by side, on as many queries of each."""
        novel_phi = novel.phi[: len(novel.image_set)]
        method = joint_method(self.base, novel_phi, self.phi, self.tasks, pooling)
        classes = len(self.image_set.class_names) + len(novel.image_set.class_names)
        return evaluate_tasks(method, tasks, config, classes, self.progress)


def evaluate_poolings(
    methods: Sequence[ImplantMethod], tasks: Tasks, config: TaskConfig, classes: int, progress: Progress = silent
) -> list[Result]:
    """Methods that differ in their pooling at test: implants are trained once for each task and tested in each way."""
    classifiers = [method.fitting.by_implants for method in methods]
    counts = [Counts(len(tasks), classes) for _ in methods]
    for start, chunk in shared(tasks, methods[0].tasks_at_once, progress):
        for counted, answers in zip(counts, methods[0].tested(chunk, classifiers), strict=True):
            counted.add(start, *answers)
    return [counted.result(str(method), tasks, config) for counted, method in zip(counts, methods, strict=True)]
