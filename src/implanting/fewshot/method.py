"""The `Method` protocol: a method predicts the class of every query in a chunk of tasks.

A method reads features or activations that were computed once; to it, tasks are only indices into them.
"""

from typing import Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from implanting.fewshot.tasks import Tasks

Queries = Int[Tensor, "task group query"]
"""One class per query; a group contains the queries of one class."""


@runtime_checkable
class Method(Protocol):
    """Classifies the queries of tasks."""

    @property
    def tasks_at_once(self) -> int:
        """How many tasks of the usual size to pass in one call; fewer if they are larger (`loop.room_for`)."""
        ...

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        """Return the true and the predicted class of each query."""
        ...

    def __str__(self) -> str: ...


def named(tasks: Tasks, answers: Int[Tensor, "task way_query"]) -> tuple[Queries, Queries]:
    """Return the truth, and the answers converted from indices within a task to classes of the image set."""
    truth = tasks.classes[:, :, None].expand(tasks.query.shape)
    return truth, tasks.classes.gather(1, answers.cpu()).view(tasks.query.shape)


def counted(views: int) -> str:
    """Format a number of views: `1 view`, `6 views`."""
    return f"{views} view{'s' * (views > 1)}"


def in_views(views: int) -> str:
    """The part of a method's name that gives its number of views, empty for one."""
    return f", {counted(views)}" if views > 1 else ""
