"""Implants where they help: each task decides for itself."""

from dataclasses import dataclass

import torch

from implanting.fewshot import Queries, Tasks, named, room_for
from implanting.implants.by_implants import ImplantMethod
from implanting.implants.crossfit import HeldOut, cross_fit_implants, cross_fit_prototypes, implants_help


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
        together = room_for(self.tasks_at_once, tasks.size)
        held_out = HeldOut(
            labels=supports.labels,
            prototypes=cross_fit_prototypes(supports, fitting, together),
            implants=cross_fit_implants(supports, fitting, generators, together),
        )
        queries = self.implants.activations.of(tasks.query.flatten(1))
        by_implants = fitting.fit_implants(supports, generators).probabilities(*queries)
        by_prototypes = fitting.fit_prototypes(supports).probabilities(*queries)
        helped = implants_help(held_out, fitting.config)[:, None, None]
        return named(tasks, torch.where(helped, by_implants, by_prototypes).argmax(-1))

    def __str__(self) -> str:
        return str(self.implants).replace("implants", "implants where they help", 1)
