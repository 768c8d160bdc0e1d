"""Implants trained on each task's supports: stage 2."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator

from implanting.base import BaseNetwork
from implanting.config import ImplantConfig, InferenceConfig, TaskConfig
from implanting.datasets import rows_of
from implanting.dense_classification import PrototypeClassifier, probabilities
from implanting.fewshot import Counts, Queries, Result, Tasks, chunks_of, counted, in_views, named
from implanting.implants.activations import Activations, Supports
from implanting.implants.fitting import FEWEST, Fitting, fitting_of, widened
from implanting.runtime import Progress, Stream, generator_of, silent

MOST = 64
"""Tasks that are adapted together where maps are small; where they are large, `FEWEST`."""

TOGETHER = FEWEST * 16 * 1280
"""Numbers read of an image times tasks: the fewest tasks at width 64 and 32 px, more where tasks are small."""


@dataclass(frozen=True)
class ImplantMethod:
    """Implants trained on each task's supports, then prototypes of the widened features."""

    activations: Activations
    """Of the images, then of as many other views of them as are read."""
    fitting: Fitting
    seed: int
    tasks_at_once: int = FEWEST

    def supports(self, tasks: Tasks) -> Supports:
        """The supports of tasks in all their views."""
        views, (way, shot) = self.fitting.views, tasks.support.shape[1:]
        rows = rows_of(tasks.support, views, len(self.activations.phi) // views)
        labels = torch.arange(way).repeat_interleave(shot)
        return Supports(*self.activations.of(rows.flatten(1)), labels, self.activations.sizes, views)

    def generators(self, tasks: Tasks) -> list[Generator]:
        """Where the initial implants of each task come from."""
        return [generator_of(self.seed, Stream.IMPLANTS, int(number)) for number in tasks.numbers]

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        (answers,) = self.tested(tasks, [self.fitting.by_implants])
        return answers

    def tested(self, tasks: Tasks, classifiers: Sequence[PrototypeClassifier]) -> list[tuple[Queries, Queries]]:
        """Implants trained once, and what each way to test them answers."""
        supports, fitting = self.supports(tasks), self.fitting
        implants = fitting.adapted(supports, self.generators(tasks))
        wide_query = widened(implants, *self.activations.of(tasks.query.flatten(1)))
        ways = [fitting.around(implants, supports, classify) for classify in classifiers]
        return [named(tasks, probabilities(fitted.scores_of(wide_query)).argmax(-1)) for fitted in ways]

    def __str__(self) -> str:
        trained, averaged = self.fitting.config.adapt_views, self.fitting.support_views
        apart = f", trained on {counted(trained)}, {averaged} averaged"
        drawn = "random " if self.fitting.config.implant_epochs == 0 else ""
        return f"{drawn}implants ({self.fitting.by_implants}{in_views(trained) if trained == averaged else apart})"


def implant_method(
    base: BaseNetwork, activations: Activations, pooling: InferenceConfig, config: ImplantConfig, seed: int
) -> ImplantMethod:
    """Implants with the fixed tau of stage 2, from the activations of all the views that are read."""
    together = tasks_together(activations, config.adapt_views)
    return ImplantMethod(activations, fitting_of(base, pooling, config), seed, together)


def evaluate_poolings(
    methods: Sequence[ImplantMethod], tasks: Tasks, config: TaskConfig, classes: int, progress: Progress = silent
) -> list[Result]:
    """Methods that differ in their pooling at test: implants are trained once per task and tested in each way."""
    classifiers = [method.fitting.by_implants for method in methods]
    counts = [Counts(len(tasks), classes) for _ in methods]
    for start, chunk in chunks_of(tasks, methods[0].tasks_at_once, progress):
        for count, answers in zip(counts, methods[0].tested(chunk, classifiers), strict=True):
            count.add(start, *answers)
    return [count.result(str(method), tasks, config) for count, method in zip(counts, methods, strict=True)]


def tasks_together(activations: Activations, views: int) -> int:
    """How many tasks to adapt together, when each support is seen in some views."""
    numbers = views * sum(maps.shape[1] * maps.shape[2] for maps in activations.base_maps)
    return max(1, FEWEST // views, min(MOST, TOGETHER // numbers))
