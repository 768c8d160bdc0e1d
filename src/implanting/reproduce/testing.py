"""The tests behind a table's cells: a base network's features are computed once and read by all of its cells."""

import dataclasses
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from implanting.activations import Activations, compute_activations
from implanting.base import BaseNetwork
from implanting.config import InferenceConfig, TaskConfig
from implanting.datasets import ImageSet
from implanting.errors import ConfigError
from implanting.evaluation import (
    Result,
    base_class_method,
    decides,
    evaluate_poolings,
    evaluate_tasks,
    implant_method,
    joint_method,
    prototype_method,
)
from implanting.methods import DecidedMethod, PrototypeMethod
from implanting.progress import Progress, silent
from implanting.reproduce.kept_results import KeptResults
from implanting.reproduce.paper import IMPLANT_TASKS
from implanting.reproduce.settings import Setting
from implanting.tasks import Tasks, draw_tasks
from implanting.views import add_views

Phi = Float[Tensor, "image location dim"]


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

    @property
    def base_config(self) -> TaskConfig:
        """Tasks of base classes need no supports; one shot is the least there is."""
        return dataclasses.replace(self.config, shot=1)

    @cached_property
    def base_tasks(self) -> Tasks:
        """As many queries of base classes as there are of novel ones."""
        return draw_tasks(self.known, self.base_config)


class BaseTests:
    """The tests of one base network; what they read is computed when it is first needed, and once.

    `views` are those of each image that implants are trained on, at most; 0 where there are no implants.
    """

    def __init__(
        self,
        base: BaseNetwork,
        trials: Trials,
        *,
        views: int,
        half: bool = False,
        cache: Path | None = None,
        progress: Progress = silent,
    ) -> None:
        self.base = base
        self.trials = trials
        self.views = views
        self.half = half
        self.cache = cache
        self.progress = progress
        self.prototypes: dict[InferenceConfig, PrototypeMethod] = {}

    @cached_property
    def activations(self) -> Activations:
        """What implants read of each novel image, and its phi; the images come first, then other views of them."""
        seen = add_views(self.trials.novel, self.views)
        return compute_activations(self.base, seen, half=self.half, cache=self.cache, progress=self.progress)

    @cached_property
    def phi(self) -> Phi:
        """phi of each novel image; where implants are tested too, by the same pass."""
        if self.views:
            return self.activations.phi[: len(self.trials.novel)].float()
        return self.base.embed(self.trials.novel.images, self.progress)

    @cached_property
    def held_out_phi(self) -> Phi:
        """phi of each held-out image of a base class."""
        return self.base.embed(self.trials.known.images, self.progress)

    def __call__(self, settings: Sequence[Setting]) -> list[Result]:
        """Results of settings that are tested together (`together`)."""
        first = settings[0]
        if first.implants is not None:
            return self.with_implants(settings)
        if first.classes == "base":
            return self.base_classes(settings)
        return [self.both(setting) if setting.classes == "both" else self.novel(setting) for setting in settings]

    def novel(self, setting: Setting) -> Result:
        """Novel classes by prototypes."""
        pooling = setting.inference
        if pooling not in self.prototypes:
            self.prototypes[pooling] = prototype_method(self.base, self.phi, pooling)
        config, classes = self.trials.config_of(setting), len(self.trials.novel.class_names)
        return evaluate_tasks(self.prototypes[pooling], self.trials.novel_tasks(config), config, classes, self.progress)

    def with_implants(self, settings: Sequence[Setting]) -> list[Result]:
        """Novel classes with implants that are trained once and tested with each pooling."""
        first = settings[0]
        adapt = first.implants
        assert adapt is not None  # noqa: S101 (for the type checker: `__call__` has seen to it)
        seed, poolings = self.trials.config.seed, [setting.inference for setting in settings]
        methods = [implant_method(self.base, self.activations, pooling, adapt, seed) for pooling in poolings]
        config, classes = self.trials.config_of(first), len(self.trials.novel.class_names)
        tasks = self.trials.novel_tasks(config)
        if decides(config.shot, adapt):
            decided = [DecidedMethod(method) for method in methods]
            return [evaluate_tasks(method, tasks, config, classes, self.progress) for method in decided]
        classifiers = [method.fitting.by_implants for method in methods]
        return evaluate_poolings(methods[0], classifiers, tasks, config, classes, self.progress)

    def base_classes(self, settings: Sequence[Setting]) -> list[Result]:
        """Base classes by the class weights: supports make no difference."""
        method = base_class_method(self.base, self.held_out_phi, settings[0].inference)
        classes = len(self.trials.known.class_names)
        result = evaluate_tasks(method, self.trials.base_tasks, self.trials.base_config, classes, self.progress)
        return [dataclasses.replace(result, config=self.trials.config_of(setting)) for setting in settings]

    def both(self, setting: Setting) -> Result:
        """Base and novel classes together."""
        config, trials = self.trials.config_of(setting), self.trials
        method = joint_method(self.base, self.phi, self.held_out_phi, trials.base_tasks, setting.inference)
        classes = len(trials.known.class_names) + len(trials.novel.class_names)
        return evaluate_tasks(method, trials.novel_tasks(config), config, classes, self.progress)


def together(setting: Setting) -> Hashable:
    """Settings for which this is equal are tested in one go."""
    if setting.implants is not None:
        return setting.shot, setting.implants
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
    views = [setting.implants.adapt_views for group in missing.values() for setting in group if setting.implants]
    tests = BaseTests(base, trials, views=max(views, default=0), half=half, cache=cache, progress=progress)
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
