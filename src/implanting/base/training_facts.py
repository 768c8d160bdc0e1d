"""Facts about the training of a base network, finished or not, as its file stores them."""

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
        """Return a row for a table of results, without the step."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "step"}

    def __str__(self) -> str:
        interval = "" if self.interval is None else f" ± {100 * self.interval:.2f}"
        tasks = f"{self.tasks} task{'s' * (self.tasks != 1)}"
        return f"{100 * self.mean:.2f}{interval} % ({self.way}-way {self.shot}-shot, {tasks})"


@dataclass(frozen=True)
class TrainingFacts:
    """The progress of a training, its duration and device, and its results so far."""

    step: Count
    steps: Count
    seconds: float
    device: str
    images_per_second: float | None = None
    processes: Count = 1
    threads: Count | None = None
    """CPU threads per process; None if not recorded."""
    loss: float | None = None
    """Loss, accuracy on augmented base images and tau, averaged over the last steps; None before the first average."""
    accuracy: float | None = None
    tau: float | None = None
    validation: tuple[Validation, ...] = ()
    calibration: Mapping[str, Any] | None = None
    """Calibration of prototypes of one support per class, measured on validation classes after training."""

    def __post_init__(self) -> None:
        if self.step > self.steps:
            raise ValueError(f"step {self.step} of {self.steps}")

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.step == self.steps

    def document(self) -> dict[str, Any]:
        """Return the part of a checkpoint's JSON document that stores these facts."""
        return {**dataclasses.asdict(self), "finished": self.finished}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "TrainingFacts":
        """Read and check the result of `document`, ignoring entries that later versions may add."""
        return checked(document, cls)
