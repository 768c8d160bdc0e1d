"""What all base networks of a table are tested on: images and tasks."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property

from implanting.config import TaskConfig
from implanting.datasets import ImageSet
from implanting.errors import ConfigError
from implanting.fewshot import Tasks, draw_queries, draw_tasks
from implanting.reproduce.paper import IMPLANT_TASKS
from implanting.reproduce.settings import Setting


class Trials:
    """What all base networks are tested on: novel classes, images of base classes where a table needs them, tasks."""

    def __init__(self, novel: ImageSet, held_out: ImageSet | None, config: TaskConfig) -> None:
        self.novel = novel
        self.held_out = held_out
        self.config = config
        self.drawn: dict[int, Tasks] = {}

    def config_of(self, setting: Setting) -> TaskConfig:
        """The tasks of a cell: with implants, at most as many as the paper's."""
        tasks = min(self.config.tasks, IMPLANT_TASKS) if setting.implants else self.config.tasks
        return dataclasses.replace(self.config, shot=setting.shot, tasks=tasks)

    def novel_tasks(self, config: TaskConfig) -> Tasks:
        """Tasks of novel classes, the same for all cells with as many shots."""
        if config.shot not in self.drawn:
            self.drawn[config.shot] = draw_tasks(self.novel, dataclasses.replace(config, tasks=self.config.tasks))
        return self.drawn[config.shot][: config.tasks]

    def draw(self, settings: Sequence[Setting]) -> None:
        """All tasks now rather than when they are needed, to learn at once where there are too few images."""
        for setting in settings:
            self.novel_tasks(self.config_of(setting))
        if self.held_out is not None:
            _ = self.base_tasks

    @property
    def known(self) -> ImageSet:
        """Images of base classes that were not trained on."""
        if self.held_out is None:
            raise ConfigError("tests on base classes need images of them that were not trained on: hold some out")
        return self.held_out

    @cached_property
    def base_tasks(self) -> Tasks:
        """As many queries of base classes as there are of novel ones; they need no supports."""
        return draw_queries(self.known, self.config)
