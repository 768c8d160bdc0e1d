"""Implants where they help: each task decides for itself."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from implanting.config import ImplantConfig
from implanting.fewshot import Queries, Tasks, named, room_for
from implanting.implants.by_implants import ImplantMethod
from implanting.implants.fitting import Scores, cross_fit_implants, cross_fit_prototypes


@dataclass(frozen=True)
class HeldOut:
    """Held-out scores of every support image, by prototypes and by implants."""

    labels: Int[Tensor, " image"]
    prototypes: Scores
    implants: Scores

    def advantage(self) -> Float[Tensor, "task image"]:
        """Gain of implants in the log-probability of each image's class; nan for images that were never held out."""
        own = self.labels[:, None].expand(*self.prototypes.probabilities.shape[:2], 1)
        by_implants, by_prototypes = (
            scores.probabilities.gather(2, own).squeeze(2).clamp_min(1e-12).log()
            for scores in (self.implants, self.prototypes)
        )
        return by_implants - by_prototypes


def implants_help(held_out: HeldOut, config: ImplantConfig) -> Bool[Tensor, " task"]:
    """Whether to use implants in each task, judged by images that they were not trained on.

    Implants help on average, so they are used unless a task's held-out supports are evidence against them: unless
    their mean advantage is negative by more than `decision_margin` standard errors.
    """
    advantage = held_out.advantage().double()
    count = advantage.isfinite().sum(1)
    mean = advantage.nanmean(1)
    deviation = ((advantage - mean[:, None]).square().nansum(1) / (count - 1).clamp_min(1)).sqrt()
    against = mean + config.decision_margin * deviation / count.clamp_min(1).sqrt() < 0
    return ~against


@dataclass(frozen=True)
class DecidedMethod:
    """Implants or prototypes, decided task by task from supports that the implants were not trained on."""

    implants: ImplantMethod

    @property
    def tasks_at_once(self) -> int:
        """The same number as for implants."""
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
        queries = self.implants.activations.gather(tasks.query.flatten(1))
        by_implants = fitting.fit_implants(supports, generators).probabilities(*queries)
        by_prototypes = fitting.fit_prototypes(supports).probabilities(*queries)
        helped = implants_help(held_out, fitting.config)[:, None, None]
        return named(tasks, torch.where(helped, by_implants, by_prototypes).argmax(-1))

    def __str__(self) -> str:
        return str(self.implants).replace("implants", "implants where they help", 1)
