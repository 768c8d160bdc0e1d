"""The events of a run, which the display shows and the log stores.

In a log an event is a JSON document with its name under "event".
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from implanting.base import Validation
from implanting.runtime import checked


@dataclass(frozen=True)
class Started:
    """Training begins, or continues from a step."""

    step: int
    steps: int
    images: int
    """The number of base images."""
    unvalidated: str | None = None
    """The reason why the given validation classes cannot be used, if there is one."""


@dataclass(frozen=True)
class Stepped:
    """Some steps were done; loss and accuracy are averages over them."""

    step: int
    epoch: float
    loss: float
    accuracy: float
    tau: float
    learning_rate: float
    images_per_second: float
    seconds_left: float


@dataclass(frozen=True)
class Stopped:
    """The run was asked to stop, and its current state is saved."""

    step: int
    seconds: float


@dataclass(frozen=True)
class Finished:
    """All steps are done, and the base network is saved."""

    step: int
    seconds: float


Event = Started | Stepped | Validation | Stopped | Finished

Observer = Callable[[Event], None]

KINDS: dict[str, type[Event]] = {
    "started": Started,
    "step": Stepped,
    "validation": Validation,
    "stopped": Stopped,
    "finished": Finished,
}

NAMES = {kind: name for name, kind in KINDS.items()}


def event_document(event: Event) -> dict[str, Any]:
    """An event as a line of a log."""
    return {"event": NAMES[type(event)], **dataclasses.asdict(event)}


def event_from_document(document: Mapping[str, Any]) -> Event:
    """The inverse of `event_document`; fields that later versions may add are ignored."""
    if not isinstance(document, Mapping) or str(document.get("event")) not in KINDS:
        raise ValueError("it names no event that this version knows")
    return checked(document, KINDS[str(document["event"])])


def ignore(event: Event) -> None:
    """An observer that does nothing."""
