"""Tasks to accuracies: a method answers every query, the tasks shared among all processes."""

from collections.abc import Iterator, Sequence
from typing import Literal

import torch

from implanting.base import BaseNetwork
from implanting.comparison import Approach, Comparison
from implanting.config import ImplantConfig, InferenceConfig, TaskConfig
from implanting.datasets import ImageSet
from implanting.distributed import group, total
from implanting.methods import ImplantMethod, Method
from implanting.methods.method import Queries
from implanting.progress import Progress, silent
from implanting.results import Result
from implanting.tasks import Tasks, draw_tasks
from implanting.together import room_for

TASKS, POOLING = TaskConfig(), InferenceConfig()


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
    adapt = implants if isinstance(implants, ImplantConfig) else ImplantConfig() if implants else None
    approach = Approach(InferenceConfig(support_pooling, query_pooling, support_views), adapt).at(shot)
    method = Comparison(base, image_set, [approach], seed=seed, progress=progress).method(approach)
    return evaluate_tasks(method, drawn, config, len(image_set.class_names), progress)


def evaluate_tasks(
    method: Method, tasks: Tasks, config: TaskConfig, classes: int, progress: Progress = silent
) -> Result:
    """Classify every query of every task."""
    counts = Counts(len(tasks), classes)
    for start, chunk in shared(tasks, method.tasks_at_once, progress):
        counts.add(start, *method(chunk))
    return counts.result(str(method), tasks, config)


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


def shared(tasks: Tasks, at_once: int, progress: Progress) -> Iterator[tuple[int, Tasks]]:
    """This process's chunks of tasks, each with the number of its first; cut alike whatever the number of processes."""
    rank, size = group()
    at_once = room_for(at_once, tasks.size)
    mine = range(0, len(tasks), at_once)[rank::size]
    for start in progress(mine, f"{tasks.support.shape[2]}-shot tasks", len(mine)):
        yield start, tasks[start : start + at_once]


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
