"""The tests of one base network behind a table's cells: its features are computed once and read by all of them."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property

from implanting.evaluation import Comparison, KnownClasses, evaluate_poolings
from implanting.fewshot import Result, evaluate_tasks
from implanting.implants import ImplantMethod
from implanting.reproduce.settings import Setting
from implanting.reproduce.trials import Trials


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
