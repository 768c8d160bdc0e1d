"""How the library tells its progress: the caller passes a wrapper of iterables in; nothing is printed from here."""

from collections.abc import Iterable
from typing import Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


@runtime_checkable
class Progress(Protocol):
    """Passes items on, and tells whom it likes how many have gone by."""

    def __call__(self, items: Iterable[T], description: str, total: int) -> Iterable[T]: ...


def silent(items: Iterable[T], description: str, total: int) -> Iterable[T]:  # noqa: ARG001 (a Progress)
    """The default: pass the items on and say nothing."""
    return items
