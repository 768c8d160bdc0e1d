"""The methods that are evaluated: each names the class of every query of a chunk of tasks.

A method reads features or activations that were computed once, and sees tasks only as indices into them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Generator, Tensor

from implanting.activations import Activations
from implanting.crossfit import cross_fit, implants_help
from implanting.fitting import Fitting, widened
from implanting.gathering import answers_of
from implanting.inference import PrototypeClassifier
from implanting.randomness import Stream, generator_of
from implanting.similarity import pool, probabilities, prototypes, scaled_cosine
from implanting.supports import Supports
from implanting.tasks import Tasks
from implanting.views import rows_of

Queries = Int[Tensor, "task group query"]
"""A class for each query; a group is the queries of one class."""


@runtime_checkable
class Method(Protocol):
    """Classifies the queries of tasks."""

    @property
    def tasks_at_once(self) -> int:
        """How many tasks to pass in one call."""
        ...

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        """The true class of each query, and the class it is given."""
        ...

    def __str__(self) -> str: ...


def named(tasks: Tasks, answers: Int[Tensor, "task way_query"]) -> tuple[Queries, Queries]:
    """The truth, and answers within a task's classes as classes of the image set."""
    truth = tasks.classes[:, :, None].expand(tasks.query.shape)
    return truth, tasks.classes.gather(1, answers.cpu()).view(tasks.query.shape)


def counted(views: int) -> str:
    """`1 view`, `6 views`."""
    return f"{views} view{'s' * (views > 1)}"


def in_views(views: int) -> str:
    """How a method's name tells that it sees more than the image."""
    return f", {counted(views)}" if views > 1 else ""


@dataclass(frozen=True)
class PrototypeMethod:
    """Prototypes of the base network's own features.

    Equal to `classify` on gathered features, but pools and normalises every image once, not once a task: gathering is
    what is left to do.
    """

    phi: Float[Tensor, "row location dim"]
    """Of the images, then of their other views."""
    classify: PrototypeClassifier
    tasks_at_once: int = 1024
    views: int = 1
    """Views of each image in phi; a support is the mean of them, a query the image itself."""

    @cached_property
    def support_vectors(self) -> Float[Tensor, "image dim"]:
        """Every image pooled as a support, the mean of its views."""
        return pool(self.phi, self.classify.support_pooling).squeeze(1).unflatten(0, (self.views, -1)).mean(0)

    @cached_property
    def query_directions(self) -> Float[Tensor, "image location dim"]:
        """Every image pooled as a query, its locations of unit length."""
        images = self.phi[: len(self.phi) // self.views]
        return F.normalize(pool(images, self.classify.query_pooling), dim=-1)

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        with torch.inference_mode():
            supports = tasks.support.flatten(0, 1).to(self.phi.device)
            means = F.embedding_bag(supports, self.support_vectors, mode="mean")  # gathers nothing
            vectors = self.classify.tau * F.normalize(means, dim=-1).view(*tasks.support.shape[:2], -1)
            return named(tasks, answers_of(self.query_directions, tasks, vectors))

    def __str__(self) -> str:
        return f"prototypes ({self.classify}{in_views(self.views)})"


@dataclass(frozen=True)
class ImplantMethod:
    """Implants trained on each task's supports, then prototypes of the widened features."""

    activations: Activations
    """Of the images, then of as many other views of them as are read."""
    fitting: Fitting
    seed: int
    tasks_at_once: int = 8

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
        return f"implants ({self.fitting.by_implants}{in_views(trained) if trained == averaged else apart})"


@dataclass(frozen=True)
class DecidedMethod:
    """Implants or prototypes, decided task by task from supports that the implants were not trained on."""

    implants: ImplantMethod

    @property
    def tasks_at_once(self) -> int:
        """As many as implants."""
        return self.implants.tasks_at_once

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        fitting, supports = self.implants.fitting, self.implants.supports(tasks)
        generators = self.implants.generators(tasks)
        held_out = cross_fit(supports, fitting, generators, self.tasks_at_once)
        queries = self.implants.activations.of(tasks.query.flatten(1))
        by_implants = fitting.fit_implants(supports, generators).probabilities(*queries)
        by_prototypes = fitting.fit_prototypes(supports).probabilities(*queries)
        helped = implants_help(held_out, fitting.config)[:, None, None]
        return named(tasks, torch.where(helped, by_implants, by_prototypes).argmax(-1))

    def __str__(self) -> str:
        return str(self.implants).replace("implants", "implants where they help", 1)


@dataclass(frozen=True)
class BaseClassMethod:
    """Base classes by the learned class weights, all of them at once; the tasks only choose which queries count.

    So every image is classified once, however many tasks have it.
    """

    phi: Float[Tensor, "image location dim"]
    class_weights: Float[Tensor, "way weight_dim"]
    classify: PrototypeClassifier
    tasks_at_once: int = 64

    @cached_property
    def answers(self) -> Int[Tensor, " image"]:
        """The class of every image."""
        with torch.inference_mode():
            parts = [pool(phi, self.classify.query_pooling) for phi in self.phi.split(1024)]
            scores = [scaled_cosine(part, self.class_weights, self.classify.tau) for part in parts]
            return torch.cat([probabilities(part).argmax(-1) for part in scores]).cpu()

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        given = self.answers[tasks.query]
        return tasks.classes[:, :, None].expand(given.shape), given

    def __str__(self) -> str:
        return f"class weights ({self.classify.query_pooling})"


@dataclass(frozen=True)
class JointMethod:
    """Base and novel classes together: the class weights and a task's prototypes side by side.

    Each novel task is paired with the base task of the same number, of as many queries. Novel class c is called
    (base classes) + c.
    """

    novel_phi: Float[Tensor, "image location dim"]
    base_phi: Float[Tensor, "base_image location dim"]
    base_tasks: Tasks
    class_weights: Float[Tensor, "way weight_dim"]
    classify: PrototypeClassifier
    tasks_at_once: int = 16

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        base_tasks = self.base_tasks[int(tasks.numbers[0]) : int(tasks.numbers[-1]) + 1]
        base_classes = len(self.class_weights)
        with torch.inference_mode():
            vectors = prototypes(pool(self.novel_phi[tasks.support], self.classify.support_pooling))
            weights = self.class_weights.expand(len(tasks), -1, -1)
            joint = torch.cat([weights, vectors], dim=1)[:, None]
            queries = torch.cat([self.base_phi[base_tasks.query], self.novel_phi[tasks.query]], dim=1)
            scores = scaled_cosine(pool(queries.flatten(1, 2), self.classify.query_pooling), joint, self.classify.tau)
            answers = probabilities(scores).argmax(-1).cpu()
        names = torch.cat([torch.arange(base_classes).expand(len(tasks), -1), base_classes + tasks.classes], dim=1)
        truth = torch.cat([base_tasks.classes, base_classes + tasks.classes], dim=1)
        shape = (len(tasks), truth.shape[1], tasks.query.shape[2])
        return truth[:, :, None].expand(shape), names.gather(1, answers).view(shape)

    def __str__(self) -> str:
        return f"class weights and prototypes ({self.classify})"
