"""The evaluation loop: a method classifies every query, with the tasks shared among all processes."""

from collections.abc import Iterator

import torch

from implanting.config import TaskConfig
from implanting.fewshot.method import Method, Queries
from implanting.fewshot.results import Result
from implanting.fewshot.tasks import Tasks
from implanting.runtime import Progress, group, silent, total

USUAL = 5 * (10 + 30)
"""Tasks of up to this many images count as being of the usual size: 5 classes, 10 shots and 30 queries."""


def evaluate_tasks(
    method: Method, tasks: Tasks, config: TaskConfig, classes: int, progress: Progress = silent
) -> Result:
    """Classify every query of every task."""
    counts = Counts(len(tasks), classes)
    for start, chunk in chunks_of(tasks, method.tasks_at_once, progress):
        counts.add(start, *method(chunk))
    return counts.result(str(method), tasks, config)


def chunks_of(tasks: Tasks, at_once: int, progress: Progress) -> Iterator[tuple[int, Tasks]]:
    """Yield this process's chunks of tasks with the index of their first task.

    The boundaries of the chunks do not depend on the number of processes.
    """
    rank, size = group()
    at_once = room_for(at_once, tasks.size)
    mine = range(0, len(tasks), at_once)[rank::size]
    shot = tasks.support.shape[2]
    for start in progress(mine, f"{shot}-shot tasks" if shot else "tasks", len(mine)):
        yield start, tasks[start : start + at_once]


def room_for(tasks: int, images: int) -> int:
    """Return how many tasks of `images` images need the memory of `tasks` tasks of the usual size; at least one."""
    return max(1, tasks * USUAL // max(USUAL, images))


class Counts:
    """Running counts of correct answers per task and of confusions between classes; answers are not stored."""

    def __init__(self, tasks: int, classes: int) -> None:
        self.classes = classes
        self.right = torch.zeros(tasks, dtype=torch.float64)
        self.confusion = torch.zeros(classes**2, dtype=torch.int64)

    def add(self, start: int, truth: Queries, given: Queries) -> None:
        """Count the answers to a chunk whose first task has the index `start`."""
        self.right[start : start + len(truth)] = (truth == given).double().mean((1, 2))
        self.confusion += torch.bincount((truth * self.classes + given).flatten(), minlength=self.classes**2)

    def result(self, method: str, tasks: Tasks, config: TaskConfig) -> Result:
        """Sum the counts of all processes."""
        return Result(
            method=method,
            config=config,
            images=tasks.images,
            per_task=total(self.right).numpy(),
            confusion=total(self.confusion).view(self.classes, self.classes).numpy(),
        )
