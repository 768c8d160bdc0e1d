"""How a base network was trained: what its file says of that, whether training has ended or not."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from implanting.runtime import checked

Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True)
class Validation:
    """A few-shot test on validation classes after some step of training."""

    step: Count
    method: str
    way: Count
    shot: Count
    mean: Share
    interval: float | None
    """Half-width of the 95 % interval of the mean; None for a single task."""
    tasks: Count

    def row(self) -> dict[str, Any]:
        """As a row of results, which say nothing of steps."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "step"}

    def __str__(self) -> str:
        interval = "" if self.interval is None else f" ± {100 * self.interval:.2f}"
        tasks = f"{self.tasks} task{'s' * (self.tasks != 1)}"
        return f"{100 * self.mean:.2f}{interval} % ({self.way}-way {self.shot}-shot, {tasks})"


@dataclass(frozen=True)
class TrainingFacts:
    """How far a training came, how long it took and where, and what it gave so far."""

    step: Count
    steps: Count
    seconds: float
    device: str
    images_per_second: float | None = None
    processes: Count = 1
    threads: Count | None = None
    """CPU threads of each process; None where that was not noted."""
    loss: float | None = None
    """Loss, accuracy on augmented base images and tau at the last steps; None before any were averaged."""
    accuracy: float | None = None
    tau: float | None = None
    validation: tuple[Validation, ...] = ()
    calibration: Mapping[str, Any] | None = None
    """How sure prototypes of one support per class may be, measured on validation classes at the end."""

    def __post_init__(self) -> None:
        if self.step > self.steps:
            raise ValueError(f"step {self.step} of {self.steps}")

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.step == self.steps

    def document(self) -> dict[str, Any]:
        """As a part of the JSON document of a checkpoint."""
        return {**dataclasses.asdict(self), "finished": self.finished}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "TrainingFacts":
        """The inverse of `document`, checked as a whole; what later versions may add is left out."""
        return checked(document, cls)
