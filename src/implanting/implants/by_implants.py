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
"""Number of tasks adapted together if maps are small; `FEWEST` is the number for large ones."""

TOGETHER = FEWEST * 16 * 1280
"""Tasks times numbers read per image: gives `FEWEST` tasks at width 64 and 32 px, and more if maps are smaller."""


@dataclass(frozen=True)
class ImplantMethod:
    """Implants trained on each task's supports, then prototypes of the widened features."""

    activations: Activations
    """Activations of all images, followed by those of each further view of all images."""
    fitting: Fitting
    seed: int
    tasks_at_once: int = FEWEST

    def supports(self, tasks: Tasks) -> Supports:
        """The supports of these tasks, in all their views."""
        views, (way, shot) = self.fitting.views, tasks.support.shape[1:]
        rows = rows_of(tasks.support, views, len(self.activations.phi) // views)
        labels = torch.arange(way).repeat_interleave(shot)
        return Supports(*self.activations.gather(rows.flatten(1)), labels, self.activations.sizes, views)

    def generators(self, tasks: Tasks) -> list[Generator]:
        """One generator per task, from which its initial implants are drawn."""
        return [generator_of(self.seed, Stream.IMPLANTS, int(number)) for number in tasks.numbers]

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        (answers,) = self.train_and_answer(tasks, [self.fitting.by_implants])
        return answers

    def train_and_answer(
        self, tasks: Tasks, classifiers: Sequence[PrototypeClassifier]
    ) -> list[tuple[Queries, Queries]]:
        """Train implants once per task, and return the answers of each of these classifiers that use them."""
        supports, fitting = self.supports(tasks), self.fitting
        implants = fitting.adapted(supports, self.generators(tasks))
        wide_query = widened(implants, *self.activations.gather(tasks.query.flatten(1)))
        fitted = [fitting.with_prototypes(implants, supports, classify) for classify in classifiers]
        return [named(tasks, probabilities(one.scores_of(wide_query)).argmax(-1)) for one in fitted]

    def __str__(self) -> str:
        trained, averaged = self.fitting.config.adapt_views, self.fitting.support_views
        apart = f", trained on {counted(trained)}, {averaged} averaged"
        drawn = "random " if self.fitting.config.implant_epochs == 0 else ""
        return f"{drawn}implants ({self.fitting.by_implants}{in_views(trained) if trained == averaged else apart})"


def implant_method(
    base: BaseNetwork, activations: Activations, pooling: InferenceConfig, config: ImplantConfig, seed: int
) -> ImplantMethod:
    """Implants with the fixed tau of stage 2; `activations` must hold all the views that the configurations ask for."""
    together = tasks_together(activations, config.adapt_views)
    return ImplantMethod(activations, fitting_of(base, pooling, config), seed, together)


def evaluate_poolings(
    methods: Sequence[ImplantMethod], tasks: Tasks, config: TaskConfig, classes: int, progress: Progress = silent
) -> list[Result]:
    """Evaluate methods that differ only in their pooling at test; they share the implants of each task."""
    classifiers = [method.fitting.by_implants for method in methods]
    counts = [Counts(len(tasks), classes) for _ in methods]
    for start, chunk in chunks_of(tasks, methods[0].tasks_at_once, progress):
        for count, answers in zip(counts, methods[0].train_and_answer(chunk, classifiers), strict=True):
            count.add(start, *answers)
    return [count.result(str(method), tasks, config) for count, method in zip(counts, methods, strict=True)]


def tasks_together(activations: Activations, views: int) -> int:
    """How many tasks to adapt together if each support has this number of views."""
    numbers = views * sum(maps.shape[1] * maps.shape[2] for maps in activations.base_maps)
    return max(1, FEWEST // views, min(MOST, TOGETHER // numbers))
