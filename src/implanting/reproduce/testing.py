"""The tests of one base network behind a table's cells: its features are computed once and read by all of them."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property

from jaxtyping import Float
from torch import Tensor

from implanting.comparison import Comparison
from implanting.evaluation import evaluate_poolings, evaluate_tasks
from implanting.methods import ImplantMethod
from implanting.methods.by_class_weights import base_class_method, joint_method
from implanting.reproduce.settings import Setting
from implanting.reproduce.trials import Trials
from implanting.results import Result


class BaseTests:
    """The tests of one base network, which the comparison is of; what they read is computed when first needed."""

    def __init__(self, comparison: Comparison, trials: Trials) -> None:
        self.comparison = comparison
        self.trials = trials
        self.base = comparison.base
        self.progress = comparison.progress

    @cached_property
    def held_out_phi(self) -> Float[Tensor, "image location dim"]:
        """phi of each held-out image of a base class."""
        return self.base.embed(self.trials.known.images, self.progress)

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
        method = base_class_method(self.base, self.held_out_phi, settings[0].inference)
        classes = len(self.trials.known.class_names)
        result = evaluate_tasks(method, self.trials.base_tasks, self.trials.base_config, classes, self.progress)
        return [dataclasses.replace(result, config=self.trials.config_of(setting)) for setting in settings]

    def both(self, setting: Setting) -> Result:
        """Base and novel classes together."""
        config, trials = self.trials.config_of(setting), self.trials
        phi = self.comparison.phi[: len(trials.novel)]
        method = joint_method(self.base, phi, self.held_out_phi, trials.base_tasks, setting.inference)
        classes = len(trials.known.class_names) + len(trials.novel.class_names)
        return evaluate_tasks(method, trials.novel_tasks(config), config, classes, self.progress)
