"""The accuracy of a method on tasks: its mean and 95 % interval, and paired differences.

The interval covers the sampling of tasks: it shows how much the mean may change with other tasks from the same images,
not with another training run. Methods compared on the same tasks have a *paired* interval, which is smaller.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from implanting.config import TaskConfig
from implanting.errors import ConfigError

Z = 1.959964
"""The normal quantile of a two-sided 95 % interval."""


class Share(NamedTuple):
    """The proportion of correct answers, with Wilson's 95 % interval.

    The interval covers other images like these for the same classifier. It says nothing about a classifier fitted to
    other supports.
    """

    right: int
    total: int

    @property
    def mean(self) -> float:
        """The share as a fraction; nan if there are no images."""
        return self.right / self.total if self.total else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval, which stays within 0 and 1 and is sound for few images and extreme shares."""
        if not self.total:
            return 0.0, 1.0
        total, mean, square = self.total, self.mean, Z**2
        centre = (mean + square / (2 * total)) / (1 + square / total)
        half = Z / (1 + square / total) * math.sqrt(mean * (1 - mean) / total + square / (4 * total**2))
        return min(mean, max(0.0, centre - half)), max(mean, min(1.0, centre + half))  # exact at the ends

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.mean:.1f} % ({100 * low:.1f} to {100 * high:.1f}, {self.total} images)"


@dataclass(frozen=True)
class Estimate:
    """A mean over tasks and the half-width of its 95 % interval, 1.96 sd / sqrt(tasks), as fractions."""

    mean: float
    interval: float
    tasks: int

    @classmethod
    def of(cls, values: Float[np.ndarray, " task"]) -> "Estimate":
        """Estimate the mean of per-task values."""
        deviation = values.std(ddof=1) if len(values) > 1 else float("nan")
        return cls(float(values.mean()), float(1.96 * deviation / np.sqrt(len(values))), len(values))

    @property
    def known_interval(self) -> float | None:
        """The interval as a JSON value: None for a single task."""
        return None if math.isnan(self.interval) else self.interval

    def __str__(self) -> str:
        return f"{100 * self.mean:.2f}{self._plus_minus}"

    def signed(self) -> str:
        """Format a difference, with its sign."""
        return f"{100 * self.mean:+.2f}{self._plus_minus}"

    @property
    def _plus_minus(self) -> str:
        return "" if math.isnan(self.interval) else f" ± {100 * self.interval:.2f}"


def mean_of(tasks: int, kind: str = "task") -> str:
    """Describe an estimate in words; one task has no interval."""
    return f"mean of {tasks} {kind}s ± 95 % interval over the sampling of tasks" if tasks > 1 else f"1 {kind}"


@dataclass(frozen=True)
class Result:
    """The accuracy of one method on each of many tasks."""

    method: str
    config: TaskConfig
    images: str
    """The fingerprint of the image set that the tasks were drawn from."""
    per_task: Float[np.ndarray, " task"]
    confusion: Int[np.ndarray, "true given"]
    """The number of queries of each class (row) that were assigned to each class (column), over all tasks."""

    @property
    def per_class(self) -> Float[np.ndarray, " class"]:
        """The accuracy on each class's queries; nan for a class that is in no task."""
        with np.errstate(invalid="ignore"):
            return self.confusion.diagonal() / self.confusion.sum(1)

    @property
    def estimate(self) -> Estimate:
        """The mean accuracy with its interval."""
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
        """Return a row for a JSON document; the interval of a single task is null."""
        estimate = self.estimate
        shape = {"method": self.method, "way": self.config.way, "shot": self.config.shot}
        return {**shape, "mean": estimate.mean, "interval": estimate.known_interval, "tasks": self.config.tasks}

    def gain_over(self, other: "Result") -> Estimate:
        """Return the paired difference from another method on the tasks that both were evaluated on.

        Task i does not depend on the number of tasks, so if one method was evaluated on fewer tasks, those are used.
        """
        shared = min(len(self.per_task), len(other.per_task))
        mine, its = (dataclasses.replace(result.config, tasks=shared) for result in (self, other))
        if (mine, self.images) != (its, other.images):
            ours, theirs = (f"{result.config} of images {result.images[:8]}" for result in (self, other))
            raise ConfigError(f"a paired difference needs the same tasks; these are {ours} and {theirs}")
        return Estimate.of(self.per_task[:shared] - other.per_task[:shared])
