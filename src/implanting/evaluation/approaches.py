"""The approaches that are compared, and which of them a number of supports per class allows."""

from dataclasses import dataclass, field, replace
from typing import Literal

from implanting.baselines import METHODS
from implanting.config import (
    ImplantConfig,
    InferenceConfig,
    MethodName,
    RivalConfig,
    TaskConfig,
    TestPooling,
    require_listed,
)
from implanting.errors import ConfigError

Classes = Literal["novel", "base", "both"]
"""The classes among which a query is classified."""


@dataclass(frozen=True)
class Approach:
    """A way to answer tasks: by prototypes, with implants, or by the learned class weights of the base classes."""

    pooling: InferenceConfig
    implants: ImplantConfig | None = None
    classes: Classes = "novel"
    """novel: a task's own classes. base: all base classes, by class weights. both: class weights and prototypes."""
    method: MethodName | None = None
    """A method of `baselines`; None for prototypes, or for implants if these are set."""
    rivals: RivalConfig = field(default_factory=RivalConfig)
    """The settings of that method."""

    def __post_init__(self) -> None:
        require_listed(self)
        if self.method is not None and self.pooling.views > 1:
            raise ConfigError(f"`method` {self.method} is defined without views: leave out {self._views_asked}")
        if self.implants is not None and self.pooling.query_views > 1:
            raise ConfigError("`query_views` is defined for prototypes without implants: leave out one of them")
        if self.classes != "novel" and self.implants is not None:
            raise ConfigError(f"`classes` {self.classes} is defined without implants: leave out `implants`")
        if self.classes != "novel" and self.pooling.support_pooling == "gem-centred":
            raise ConfigError(f"`classes` {self.classes} compares with class weights, which are not centred: set gap")
        if self.classes != "novel" and self.views > 1:
            raise ConfigError(f"`classes` {self.classes} is defined without views: leave out {self._views_asked}")

    def with_default(self, pooling: TestPooling | None) -> "Approach":
        """The same with this pooling, unless another is named; class weights are for the pooling of training."""
        return replace(self, pooling=self.pooling.with_default(pooling)) if self.classes == "novel" else self

    @property
    def _views_asked(self) -> str:
        return "`query_views`" if self.pooling.support_views == 1 else "`support_views`"

    @property
    def decides(self) -> bool:
        """Whether each task decides by itself whether to use implants."""
        return self.implants is not None and self.implants.implant_decision == "held-out"

    @property
    def views(self) -> int:
        """Views of each image that are read."""
        trained = self.implants.adapt_views if self.implants is not None else 1
        return max(self.pooling.views, trained)

    @property
    def reads_activations(self) -> bool:
        """Whether the maps that the last block reads are needed in addition to phi."""
        return self.implants is not None or self.method == "last-block"

    @property
    def reads_trained_images(self) -> bool:
        """Whether images of the base classes that were trained on are needed."""
        return self.method == "simpleshot" or (self.method == "imprinted" and self.rivals.imprint_steps > 0)

    def reduced_to(self, shot: int) -> "Approach":
        """This approach reduced to what `shot` supports per class allow: no decision per task, or no implants."""
        if self.method is not None:
            return self if shot >= METHODS[self.method].fewest_shots else replace(self, method=None)
        if self.implants is None or not _can_adapt(shot, self.implants):
            return replace(self, implants=None)
        if not _can_decide(shot, self.implants):
            return replace(self, implants=replace(self.implants, implant_decision="always"))
        return self

    def works_with(self, shot: int) -> bool:
        """Whether `shot` supports per class are enough for the whole approach."""
        return self.reduced_to(shot) == self


def _can_adapt(shot: int, config: ImplantConfig) -> bool:
    """Whether leaving one out leaves something to compare with: another image of the class, or another view."""
    return shot > 1 or config.adapt_views > 1


def _can_decide(shot: int, config: ImplantConfig) -> bool:
    """Whether a task keeps enough to train on when some supports are held out."""
    kept = shot - -(-shot // min(shot, config.decision_folds))
    return kept > 0 and _can_adapt(kept, config)


def approach_of(
    method: MethodName,
    pooling: InferenceConfig,
    implants: ImplantConfig,
    rivals: RivalConfig,
    classes: Classes = "novel",
) -> Approach:
    """The approach with the name of a method, and with the settings of that method."""
    if method == "prototypes":
        return Approach(pooling, None, classes)
    if method == "implants":
        return Approach(pooling, implants, classes)
    if method == "random-implants":
        return Approach(pooling, replace(implants, implant_epochs=0), classes)
    return Approach(pooling, None, classes, method, rivals)


@dataclass(frozen=True)
class Trial:
    """One approach on tasks of one shape, which gives one result."""

    approach: Approach
    tasks: TaskConfig
