"""Tasks to accuracies to mean and 95 % interval.

The interval is over the sampling of tasks: it says how far the mean of other tasks from the same images may lie, not
how another training run would do. Methods compared on the same tasks differ by a *paired* interval, which is smaller.
"""

import math
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
from implanting.inference import prototype_classifier
from implanting.methods import BaseClassMethod, DecidedMethod, ImplantMethod, JointMethod, Method, PrototypeMethod
from implanting.progress import Progress, silent
from implanting.supports import fitting_of
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
    fitting = fitting_of(base, activations.sizes, pooling, config)
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
    base: BaseNetwork, novel: ImageSet, base_images: ImageSet, base_tasks: Tasks, pooling: InferenceConfig
) -> JointMethod:
    """Class weights and prototypes side by side, with the learned tau."""
    classify = prototype_classifier(base.pooling, base.tau, pooling)
    novel_phi, base_phi = base.embed(novel.images), base.embed(base_images.images)
    return JointMethod(novel_phi, base_phi, base_tasks, require_class_weights(base), classify)


def evaluate_tasks(
    method: Method, tasks: Tasks, config: TaskConfig, classes: int, progress: Progress = silent
) -> Result:
    """Classify every query of every task, the chunks shared among all processes."""
    starts = range(0, len(tasks), method.tasks_at_once)
    rank, size = group()
    mine = starts[rank::size]
    right, confusion = torch.zeros(len(tasks), dtype=torch.float64), torch.zeros(classes**2, dtype=torch.int64)
    for start in progress(mine, f"{config.shot}-shot tasks", len(mine)):
        truth, given = method(tasks[start : start + method.tasks_at_once])
        right[start : start + len(truth)] = (truth == given).double().mean((1, 2))
        confusion += torch.bincount((truth * classes + given).flatten(), minlength=classes**2)
    return Result(
        method=str(method),
        config=config,
        images=tasks.images,
        per_task=total(right).numpy(),
        confusion=total(confusion).view(classes, classes).numpy(),
    )
