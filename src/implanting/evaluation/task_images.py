"""The tasks on which methods are compared: they are drawn once and shared by all methods."""

from collections.abc import Callable
from dataclasses import replace

import torch

from implanting.base import BaseNetwork
from implanting.config import TaskConfig
from implanting.datasets import ImageSet
from implanting.errors import ConfigError
from implanting.evaluation.approaches import Classes, Trial
from implanting.fewshot import Tasks, draw_queries, draw_tasks

Draw = Callable[[ImageSet, TaskConfig], Tasks]
Drawn = dict[tuple[Draw, TaskConfig], Tasks]

FEW = 0.5
"""If tasks use less than this share of a set of images, the others are not read."""


class TaskImages:
    """The images that tasks are drawn from: of novel classes, of base classes (not trained on), or of both."""

    def __init__(self, novel: ImageSet | None, base: ImageSet | None = None, trained: ImageSet | None = None) -> None:
        self._novel = novel
        self._base = base
        self.trained = trained
        """Images of base classes that were trained on, for methods that read them."""
        self._drawn: Drawn = {}

    @property
    def novel(self) -> ImageSet:
        """The images of novel classes."""
        if self._novel is None:
            raise ConfigError("evaluate needs image_set: the images of novel classes to test on")
        return self._novel

    @property
    def base(self) -> ImageSet:
        """The images of base classes."""
        if self._base is None:
            raise ConfigError("evaluate needs base_images: images of base classes that were not trained on")
        return self._base

    def require_trained(self, base: BaseNetwork, method: str) -> ImageSet:
        """The images that a base was trained on; raises an error that names the method that needs them."""
        if self.trained is None or self.trained.class_names != base.class_names:
            found = "there are none" if self.trained is None else f"{self.trained.name} has other classes"
            raise ConfigError(
                f"`method` {method} reads images of the base classes of {base.name}, and {found}: test on the data "
                "that the base was trained on, or choose another method"
            )
        return self.trained

    def tested(self, classes: Classes) -> list[ImageSet]:
        """The images of the classes among which queries are classified; base classes come first."""
        return [*([self.base] if classes != "novel" else []), *([self.novel] if classes != "base" else [])]

    def draw(self, trial: Trial) -> None:
        """Draw the tasks of a trial now rather than when they are needed: there may be too few images."""
        self.tasks_of(trial)
        if trial.approach.classes == "both":
            self.base_tasks(trial.tasks)

    def tasks_of(self, trial: Trial) -> Tasks:
        """The tasks that are counted; if base and novel classes are tested together, the tasks of the novel classes."""
        return self.base_tasks(trial.tasks) if trial.approach.classes == "base" else self.novel_tasks(trial.tasks)

    def novel_tasks(self, config: TaskConfig) -> Tasks:
        """Tasks of novel classes."""
        return self._tasks(draw_tasks, self.novel, config)

    def base_tasks(self, config: TaskConfig) -> Tasks:
        """Queries of base classes, which need no supports: the number of shots makes no difference."""
        return self._tasks(draw_queries, self.base, replace(config, shot=1))

    def without_unused(self) -> "TaskImages":
        """The tasks drawn so far on the images that they use, as no other image needs to pass the network.

        Nothing else can be drawn from the result.
        """
        novel, novel_tasks = _used(self._novel, self._drawn_by(draw_tasks))
        base, base_tasks = _used(self._base, self._drawn_by(draw_queries))
        reduced = TaskImages(novel, base, self.trained)
        reduced._drawn = {**novel_tasks, **base_tasks}
        return reduced

    def _drawn_by(self, draw: Draw) -> Drawn:
        return {key: tasks for key, tasks in self._drawn.items() if key[0] is draw}

    def _tasks(self, draw: Draw, images: ImageSet, config: TaskConfig) -> Tasks:
        """Draw tasks; task i depends only on the seed and i, so that fewer tasks are the first of more."""
        key = draw, replace(config, tasks=1)
        if key not in self._drawn or len(self._drawn[key]) < config.tasks:
            self._drawn[key] = draw(images, config)
        return self._drawn[key][: config.tasks]


def _used(images: ImageSet | None, drawn: Drawn) -> tuple[ImageSet | None, Drawn]:
    """The images that tasks use, and the tasks with the indices of these; both unchanged if most are used."""
    if images is None or not drawn:
        return images, drawn
    indices = torch.cat([part.flatten() for tasks in drawn.values() for part in (tasks.support, tasks.query)]).unique()
    if len(indices) >= FEW * len(images):
        return images, drawn
    place = torch.full((len(images),), -1)
    place[indices] = torch.arange(len(indices))
    return images.subset(indices), {
        key: replace(tasks, support=place[tasks.support], query=place[tasks.query]) for key, tasks in drawn.items()
    }
