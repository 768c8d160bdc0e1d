"""The tests behind a table's cells: what all base networks are tested on, and the results as they come.

Features of a base network are computed once and read by all of its tests.
"""

import dataclasses
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from implanting.base import BaseNetwork
from implanting.config import TaskConfig
from implanting.datasets import ImageSet
from implanting.errors import ConfigError
from implanting.evaluation import Comparison, KnownClasses, evaluate_poolings
from implanting.fewshot import Result, Tasks, draw_queries, draw_tasks, evaluate_tasks
from implanting.implants import ImplantMethod
from implanting.reproduce.kept_results import KeptResults
from implanting.reproduce.paper import IMPLANT_TASKS
from implanting.reproduce.settings import Setting
from implanting.runtime import Progress, silent


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


class BaseTests:
    """The tests of one base network, which the comparison is of; what they read is computed when first needed."""

    def __init__(self, comparison: Comparison, trials: Trials) -> None:
        self.comparison = comparison
        self.trials = trials
        self.base = comparison.base
        self.progress = comparison.progress

    @cached_property
    def known(self) -> KnownClasses:
        """The base classes."""
        return KnownClasses(self.base, self.trials.known, self.trials.base_tasks, self.progress)

    def __call__(self, settings: Sequence[Setting]) -> list[Result]:
        """Results of settings that are tested together (`running.together`)."""
        if settings[0].classes == "base":
            return self.base_classes(settings)
        if settings[0].classes == "both":
            return [self.both(setting) for setting in settings]
        return self.novel(settings)

    def novel(self, settings: Sequence[Setting]) -> list[Result]:
        """Novel classes; implants are trained once and tested with each pooling."""
        config, classes = self.trials.config_of(settings[0]), len(self.trials.novel.class_names)
        tasks = self.trials.novel_tasks(config)
        methods = [self.comparison.method(setting.approach) for setting in settings]
        if implants := [method for method in methods if isinstance(method, ImplantMethod)]:
            return evaluate_poolings(implants, tasks, config, classes, self.progress)
        return [evaluate_tasks(method, tasks, config, classes, self.progress) for method in methods]

    def base_classes(self, settings: Sequence[Setting]) -> list[Result]:
        """Base classes by the class weights: supports make no difference."""
        result = self.known.alone(self.trials.config_of(settings[0]), settings[0].inference)
        return [dataclasses.replace(result, config=self.trials.config_of(setting)) for setting in settings]

    def both(self, setting: Setting) -> Result:
        """Base and novel classes together."""
        config = self.trials.config_of(setting)
        return self.known.beside(self.comparison, self.trials.novel_tasks(config), config, setting.inference)


def together(setting: Setting) -> Hashable:
    """Settings for which this is equal are tested in one go."""
    approach = setting.approach
    if approach.implants is not None and not approach.decides:
        return setting.shot, approach.implants
    return setting.query if setting.classes == "base" else setting


def run_tests(
    base: BaseNetwork,
    settings: Sequence[Setting],
    trials: Trials,
    kept: KeptResults,
    *,
    half: bool = False,
    cache: Path | None = None,
    progress: Progress = silent,
) -> Iterator[tuple[Setting, Result]]:
    """The result of each setting of a base network: those kept first, then the others as they are computed."""
    missing: dict[Hashable, list[Setting]] = {}
    files = {setting: file_of(base, setting, trials, kept, half) for setting in settings}
    for setting, file in files.items():
        if (result := kept.read(file)) is not None:
            yield setting, result
        else:
            missing.setdefault(together(setting), []).append(setting)
    approaches = [setting.approach for group in missing.values() for setting in group]
    comparison = Comparison(
        base, trials.novel, approaches, seed=trials.config.seed, half=half, cache=cache, progress=progress
    )
    tests = BaseTests(comparison, trials)
    for group in missing.values():
        for setting, result in zip(group, tests(group), strict=True):
            kept.write(files[setting], result)
            yield setting, result


def file_of(base: BaseNetwork, setting: Setting, trials: Trials, kept: KeptResults, half: bool) -> Path:
    """Where the result of a test is kept, by all that it depends on."""
    test = dataclasses.asdict(setting)
    test.pop("stage1")  # the base's fingerprint says more
    return kept.file_of(
        base=base.fingerprint,
        novel=trials.novel.fingerprint,
        held_out=trials.known.fingerprint if setting.classes != "novel" else None,
        tasks=dataclasses.asdict(trials.config_of(setting)),
        test=test,
        half=half,
    )
