"""What is compared: ways to answer tasks, and what a number of supports per class allows of them."""

from dataclasses import dataclass, replace
from typing import Literal

from implanting.config import ImplantConfig, InferenceConfig, TaskConfig, require_listed
from implanting.errors import ConfigError

Classes = Literal["novel", "base", "both"]
"""Which classes are told apart."""


@dataclass(frozen=True)
class Approach:
    """A way to answer tasks: by prototypes, with implants, or by the learned class weights of the base classes."""

    pooling: InferenceConfig
    implants: ImplantConfig | None = None
    classes: Classes = "novel"
    """novel: a task's own classes. base: all base classes, by class weights. both: class weights beside prototypes."""

    def __post_init__(self) -> None:
        require_listed(self)
        if self.classes != "novel" and self.implants is not None:
            raise ConfigError(f"`classes` {self.classes} is defined without implants: leave out `implants`")
        if self.classes != "novel" and self.views > 1:
            raise ConfigError(f"`classes` {self.classes} is defined without views: leave out `support_views`")

    @property
    def decides(self) -> bool:
        """Whether each task decides for itself about implants."""
        return self.implants is not None and self.implants.implant_decision == "held-out"

    @property
    def views(self) -> int:
        """Views of each image that are read."""
        trained = self.implants.adapt_views if self.implants is not None else 1
        return max(self.pooling.support_views, trained)

    def reduced_to(self, shot: int) -> "Approach":
        """This approach reduced to what `shot` supports per class allow: no decision per task, or no implants."""
        if self.implants is None or not _can_adapt(shot, self.implants):
            return replace(self, implants=None)
        if not _can_decide(shot, self.implants):
            return replace(self, implants=replace(self.implants, implant_decision="always"))
        return self

    def works_with(self, shot: int) -> bool:
        """Whether `shot` supports per class are enough for all of it."""
        return self.reduced_to(shot) == self


def _can_adapt(shot: int, config: ImplantConfig) -> bool:
    """Whether leave-one-out leaves something: another image of the class, or another view of its only image."""
    return shot > 1 or config.adapt_views > 1


def _can_decide(shot: int, config: ImplantConfig) -> bool:
    """Whether a task keeps enough to train on when some supports are held out."""
    kept = shot - -(-shot // min(shot, config.decision_folds))
    return kept > 0 and _can_adapt(kept, config)


@dataclass(frozen=True)
class Trial:
    """One approach on tasks of one shape: what has one result."""

    approach: Approach
    tasks: TaskConfig
