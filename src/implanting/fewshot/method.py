"""What a method is: it names the class of every query of a chunk of tasks.

A method reads features or activations that were computed once, and sees tasks only as indices into them.
"""

from typing import Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from implanting.fewshot.tasks import Tasks

Queries = Int[Tensor, "task group query"]
"""A class for each query; a group is the queries of one class."""


@runtime_checkable
class Method(Protocol):
    """Classifies the queries of tasks."""

    @property
    def tasks_at_once(self) -> int:
        """How many tasks of the usual size to pass in one call; of larger ones fewer (`loop.room_for`)."""
        ...

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        """The true class of each query, and the class it is given."""
        ...

    def __str__(self) -> str: ...


def named(tasks: Tasks, answers: Int[Tensor, "task way_query"]) -> tuple[Queries, Queries]:
    """The truth, and answers within a task's classes as classes of the image set."""
    truth = tasks.classes[:, :, None].expand(tasks.query.shape)
    return truth, tasks.classes.gather(1, answers.cpu()).view(tasks.query.shape)


def counted(views: int) -> str:
    """`1 view`, `6 views`."""
    return f"{views} view{'s' * (views > 1)}"


def in_views(views: int) -> str:
    """How a method's name tells that it sees more than the image."""
    return f", {counted(views)}" if views > 1 else ""
