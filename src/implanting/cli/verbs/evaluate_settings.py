"""The settings of `implanting evaluate`."""

from dataclasses import dataclass, field
from pathlib import Path

from implanting.config import ImplantConfig, InferenceConfig, RunConfig, TaskConfig, require
from implanting.evaluation import Classes, check_classes


@dataclass(frozen=True)
class Evaluate:
    """Few-shot accuracy of a base network on classes it has not seen, by prototypes, with a 95 % interval.

    Task i depends on the seed and i alone: other settings or another base see the same tasks.
    """

    base: Path
    """A base network: a file made by `implanting pretrain`, efficientnet-lite0 (ImageNet) or fc100."""
    data: Path
    """A data set (docs/data.md)."""
    split: str = "test"
    """Its classes: test, val or train."""
    splits: str | None = None
    """Class lists for unsplit data: fc100, cifar-fs, miniimagenet, or a JSON or csv FILE; default: as for the base."""
    way: int = TaskConfig.way
    """Classes of a task."""
    shot: tuple[int, ...] = (1, 5, 10)
    """Support images of each class; several values are evaluated in turn."""
    queries: int = TaskConfig.queries
    """Query images of each class."""
    tasks: int = TaskConfig.tasks
    """Number of tasks."""
    seed: int = TaskConfig.seed
    """Task i is drawn from (seed, i) alone."""
    classes: Classes = "novel"
    """novel: a task's classes, by prototypes. base: all base classes, by the learned class weights. both: together."""
    implants: bool = False
    """Train implants on each task's supports, and test them beside the prototypes on the same tasks."""
    half: bool = False
    """Keep the base activations that implants read in half precision."""
    cache: Path | None = None
    """A folder to keep these activations in for other runs."""
    workers: int = 1
    """Processes on this machine that share the tasks, each with as many threads as OMP_NUM_THREADS says, or one."""
    save_tasks: Path | None = None
    """Write the tasks to this file (.npz), for other people's code."""
    save_results: Path | None = None
    """Write the accuracy of every task and the confusion of classes to this file (.npz)."""
    json: bool = False
    """End with one JSON document on stdout, which also has the accuracy of each class."""
    pooling: InferenceConfig = field(default_factory=InferenceConfig)
    adapt: ImplantConfig = field(default_factory=ImplantConfig)
    run: RunConfig = field(default_factory=RunConfig)

    @property
    def task_configs(self) -> list[TaskConfig]:
        """The tasks of each number of shots; one that is named twice is evaluated once."""
        shots = dict.fromkeys(self.shot)
        return [TaskConfig(self.way, shot, self.queries, self.tasks, self.seed) for shot in shots]

    def check(self) -> None:
        """Refuse settings that contradict each other."""
        check_classes(self.classes, self.implants, self.pooling.support_views)
        require(self.workers >= 1, "workers", self.workers, "1 or more")
        require(len(self.shot) >= 1, "shot", "empty", "one number or more")
