"""Tasks to accuracies to mean and 95 % interval.

The interval is over the sampling of tasks: it says how far the mean of other tasks from the same images may lie, not
how another training run would do. Methods compared on the same tasks differ by a *paired* interval, which is smaller.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from implanting.activations import Activations, compute_activations
from implanting.base import BaseNetwork
from implanting.config import ImplantConfig, InferenceConfig, TaskConfig
from implanting.datasets import ImageSet
from implanting.distributed import group, total
from implanting.errors import ConfigError
from implanting.fitting import fitting_of
from implanting.inference import PrototypeClassifier, prototype_classifier
from implanting.methods import (
    BaseClassMethod,
    DecidedMethod,
    ImplantMethod,
    JointMethod,
    Method,
    PrototypeMethod,
    Queries,
)
from implanting.progress import Progress, silent
from implanting.tasks import Tasks, draw_tasks
from implanting.views import add_views

TASKS, POOLING = TaskConfig(), InferenceConfig()

TOGETHER = 8 * 16 * 1280
"""Numbers read of an image times tasks adapted together: 8 tasks at width 64 and 32 px, more where tasks are small."""


@dataclass(frozen=True)
class Estimate:
    """A mean over tasks and the half-width of its 95 % interval, 1.96 sd / sqrt(tasks); fractions, not per cent."""

    mean: float
    interval: float
    tasks: int

    @classmethod
    def of(cls, values: Float[np.ndarray, " task"]) -> "Estimate":
        """The mean of per-task values."""
        deviation = values.std(ddof=1) if len(values) > 1 else float("nan")
        return cls(float(values.mean()), float(1.96 * deviation / np.sqrt(len(values))), len(values))

    def __str__(self) -> str:
        return f"{100 * self.mean:.2f} ± {100 * self.interval:.2f}"

    def signed(self) -> str:
        """As a difference: with its sign."""
        return f"{100 * self.mean:+.2f} ± {100 * self.interval:.2f}"


@dataclass(frozen=True)
class Result:
    """The accuracy of one method on each of many tasks."""

    method: str
    config: TaskConfig
    images: str
    """The fingerprint of the image set that the tasks were drawn from."""
    per_task: Float[np.ndarray, " task"]
    confusion: Int[np.ndarray, "true given"]
    """How many queries of each class (row) were taken for each class (column), over all tasks."""

    @property
    def per_class(self) -> Float[np.ndarray, " class"]:
        """The accuracy of each class's queries; nan for a class that no task had."""
        with np.errstate(invalid="ignore"):
            return self.confusion.diagonal() / self.confusion.sum(1)

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

    def row(self) -> dict[str, Any]:
        """As a row of a JSON document; the interval of a single task is null."""
        interval = None if math.isnan(self.interval) else self.interval
        shape = {"method": self.method, "way": self.config.way, "shot": self.config.shot}
        return {**shape, "mean": self.mean, "interval": interval, "tasks": self.config.tasks}

    def gain_over(self, other: "Result") -> Estimate:
        """The paired difference to another method on the tasks that both have seen.

        Task i is the same however many there are, so where one method saw fewer, these count.
        """
        shared = min(len(self.per_task), len(other.per_task))
        mine, its = (dataclasses.replace(result.config, tasks=shared) for result in (self, other))
        if (mine, self.images) != (its, other.images):
            ours, theirs = (f"{result.config} of images {result.images[:8]}" for result in (self, other))
            raise ConfigError(f"a paired difference needs the same tasks; these are {ours} and {theirs}")
        return Estimate.of(self.per_task[:shared] - other.per_task[:shared])


def evaluate(
    base: BaseNetwork,
    image_set: ImageSet,
    *,
    way: int = TASKS.way,
    shot: int = TASKS.shot,
    queries: int = TASKS.queries,
    tasks: int = TASKS.tasks,
    seed: int = TASKS.seed,
    implants: bool | ImplantConfig = False,
    support_pooling: Literal["gap", "gmp"] = POOLING.support_pooling,
    query_pooling: Literal["gap", "gmp", "dense"] | None = POOLING.query_pooling,
    support_views: int = POOLING.support_views,
    progress: Progress = silent,
) -> Result:
    """Few-shot accuracy of a base network on the classes of an image set, with implants or by prototypes alone.

    Implants need two supports a class, or two views of each (`adapt_views`): else prototypes answer, and the result's
    `method` says so.
    """
    config = TaskConfig(way, shot, queries, tasks, seed)
    drawn = draw_tasks(image_set, config)
    pooling = InferenceConfig(support_pooling, query_pooling, support_views)
    settings = implants if isinstance(implants, ImplantConfig) else ImplantConfig()
    if implants and can_adapt(shot, settings):
        seen = add_views(image_set, max(support_views, settings.adapt_views))
        trained = implant_method(base, compute_activations(base, seen, progress=progress), pooling, settings, seed)
        method: Method = DecidedMethod(trained) if decides(shot, settings) else trained
    else:
        method = prototype_method(base, base.embed(add_views(image_set, support_views).images, progress), pooling)
    return evaluate_tasks(method, drawn, config, len(image_set.class_names), progress)


def can_adapt(shot: int, config: ImplantConfig) -> bool:
    """Whether leave-one-out leaves something: another image of the class, or another view of its only image."""
    return shot > 1 or config.adapt_views > 1


def decides(shot: int, config: ImplantConfig) -> bool:
    """Whether each task is to decide for itself, and keeps enough to train on when some supports are held out."""
    kept = shot - -(-shot // min(shot, config.decision_folds))
    return config.implant_decision == "held-out" and kept > 0 and can_adapt(kept, config)


def prototype_method(
    base: BaseNetwork, phi: Float[Tensor, "row location dim"], pooling: InferenceConfig
) -> PrototypeMethod:
    """Prototypes with the learned tau, from phi of all the views that are averaged."""
    classify = prototype_classifier(base.pooling, base.tau, pooling)
    return PrototypeMethod(phi, classify, views=pooling.support_views)


def implant_method(
    base: BaseNetwork, activations: Activations, pooling: InferenceConfig, config: ImplantConfig, seed: int
) -> ImplantMethod:
    """Implants with the fixed tau of stage 2, from the activations of all the views that are read."""
    fitting = fitting_of(base, pooling, config)
    fitting.require_implants()
    numbers = sum(maps.shape[1] * maps.shape[2] for maps in activations.base_maps) * config.adapt_views
    together = max(max(1, 8 // config.adapt_views), min(64, TOGETHER // numbers))
    return ImplantMethod(activations, fitting, seed, together)


def require_class_weights(base: BaseNetwork) -> Float[Tensor, "way weight_dim"]:
    """The class weights, or an error that says what has none."""
    if base.class_weights is None:
        raise ConfigError(f"{base.name} has no class weights of a cosine: only novel classes can be told apart")
    return base.class_weights


def base_class_method(
    base: BaseNetwork, phi: Float[Tensor, "image location dim"], pooling: InferenceConfig
) -> BaseClassMethod:
    """The learned class weights with the learned tau."""
    classify = prototype_classifier(base.pooling, base.tau, pooling)
    return BaseClassMethod(phi, require_class_weights(base), classify)


def joint_method(
    base: BaseNetwork,
    novel_phi: Float[Tensor, "image location dim"],
    base_phi: Float[Tensor, "base_image location dim"],
    base_tasks: Tasks,
    pooling: InferenceConfig,
) -> JointMethod:
    """Class weights and prototypes side by side, with the learned tau."""
    classify = prototype_classifier(base.pooling, base.tau, pooling)
    return JointMethod(novel_phi, base_phi, base_tasks, require_class_weights(base), classify)


def evaluate_tasks(
    method: Method, tasks: Tasks, config: TaskConfig, classes: int, progress: Progress = silent
) -> Result:
    """Classify every query of every task, the chunks shared among all processes."""
    names, at_once = [str(method)], method.tasks_at_once
    (result,) = count_answers(lambda chunk: [method(chunk)], names, at_once, tasks, config, classes, progress)
    return result


def evaluate_poolings(
    method: ImplantMethod,
    classifiers: Sequence[PrototypeClassifier],
    tasks: Tasks,
    config: TaskConfig,
    classes: int,
    progress: Progress = silent,
) -> list[Result]:
    """Implants trained once for each task and tested in several ways: a result for each."""
    fittings = [dataclasses.replace(method.fitting, by_implants=classify) for classify in classifiers]
    names, at_once = [str(dataclasses.replace(method, fitting=fitting)) for fitting in fittings], method.tasks_at_once
    return count_answers(
        lambda chunk: method.tested(chunk, classifiers), names, at_once, tasks, config, classes, progress
    )


class Counts:
    """Right answers of each task and the confusion of classes, counted as they come: answers are not kept."""

    def __init__(self, tasks: int, classes: int) -> None:
        self.classes = classes
        self.right = torch.zeros(tasks, dtype=torch.float64)
        self.confusion = torch.zeros(classes**2, dtype=torch.int64)

    def add(self, start: int, truth: Queries, given: Queries) -> None:
        """Count the answers to the tasks from number `start` on."""
        self.right[start : start + len(truth)] = (truth == given).double().mean((1, 2))
        self.confusion += torch.bincount((truth * self.classes + given).flatten(), minlength=self.classes**2)

    def result(self, method: str, tasks: Tasks, config: TaskConfig) -> Result:
        """What all processes counted together."""
        return Result(
            method=method,
            config=config,
            images=tasks.images,
            per_task=total(self.right).numpy(),
            confusion=total(self.confusion).view(self.classes, self.classes).numpy(),
        )


def count_answers(
    answer: Callable[[Tasks], list[tuple[Queries, Queries]]],
    names: Sequence[str],
    at_once: int,
    tasks: Tasks,
    config: TaskConfig,
    classes: int,
    progress: Progress,
) -> list[Result]:
    """Results of methods that answer together; chunks are cut by task number, whatever the number of processes."""
    rank, size = group()
    mine = range(0, len(tasks), at_once)[rank::size]
    counts = [Counts(len(tasks), classes) for _ in names]
    for start in progress(mine, f"{config.shot}-shot tasks", len(mine)):
        for counted, answers in zip(counts, answer(tasks[start : start + at_once]), strict=True):
            counted.add(start, *answers)
    return [counted.result(name, tasks, config) for counted, name in zip(counts, names, strict=True)]
