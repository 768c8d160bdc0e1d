"""Tasks to accuracies: a method answers every query, the tasks shared among all processes."""

from collections.abc import Iterator

import torch

from implanting.config import TaskConfig
from implanting.fewshot.method import Method, Queries
from implanting.fewshot.results import Result
from implanting.fewshot.tasks import Tasks
from implanting.runtime import Progress, group, silent, total

USUAL = 5 * (10 + 30)
"""Images of a task, up to which the number of tasks does not depend on them: 5 classes, 10 shots and 30 queries."""


def evaluate_tasks(
    method: Method, tasks: Tasks, config: TaskConfig, classes: int, progress: Progress = silent
) -> Result:
    """Classify every query of every task."""
    counts = Counts(len(tasks), classes)
    for start, chunk in chunks_of(tasks, method.tasks_at_once, progress):
        counts.add(start, *method(chunk))
    return counts.result(str(method), tasks, config)


def chunks_of(tasks: Tasks, at_once: int, progress: Progress) -> Iterator[tuple[int, Tasks]]:
    """This process's chunks of tasks, each with the number of its first; cut alike whatever the number of processes."""
    rank, size = group()
    at_once = room_for(at_once, tasks.size)
    mine = range(0, len(tasks), at_once)[rank::size]
    shot = tasks.support.shape[2]
    for start in progress(mine, f"{shot}-shot tasks" if shot else "tasks", len(mine)):
        yield start, tasks[start : start + at_once]


def room_for(tasks: int, images: int) -> int:
    """How many tasks of so many images take the room of some usual ones; one always goes."""
    return max(1, tasks * USUAL // max(USUAL, images))


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
