"""Which method answers tasks of so many shots, and what it reads: decided here for whoever evaluates.

An approach says how tasks are to be answered. What the approaches of a comparison read of the images is computed once,
in as many views as the most demanding of them reads; where there are implants, prototypes read the same pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.config import ImplantConfig, InferenceConfig
from implanting.datasets import ImageSet, add_views
from implanting.errors import ConfigError
from implanting.fewshot import Method, prototype_method
from implanting.implants import (
    DESCRIPTION,
    Activations,
    DecidedMethod,
    compute_activations,
    embed_together,
    fitting_of,
    implant_method,
)
from implanting.runtime import Progress, silent


@dataclass(frozen=True)
class Approach:
    """How tasks are to be answered: by prototypes, or with implants."""

    pooling: InferenceConfig
    implants: ImplantConfig | None = None

    @property
    def decides(self) -> bool:
        """Whether each task decides for itself about implants."""
        return self.implants is not None and self.implants.implant_decision == "held-out"

    @property
    def views(self) -> int:
        """Views of each image that are read."""
        trained = self.implants.adapt_views if self.implants is not None else 1
        return max(self.pooling.support_views, trained)

    def at(self, shot: int) -> "Approach":
        """The same as far as so many supports a class go: else without the decision, or by prototypes."""
        if self.implants is None or not can_adapt(shot, self.implants):
            return replace(self, implants=None)
        if not can_decide(shot, self.implants):
            return replace(self, implants=replace(self.implants, implant_decision="always"))
        return self

    def serves(self, shot: int) -> bool:
        """Whether so many supports a class are enough."""
        return self.at(shot) == self


def can_adapt(shot: int, config: ImplantConfig) -> bool:
    """Whether leave-one-out leaves something: another image of the class, or another view of its only image."""
    return shot > 1 or config.adapt_views > 1


def can_decide(shot: int, config: ImplantConfig) -> bool:
    """Whether a task keeps enough to train on when some supports are held out."""
    kept = shot - -(-shot // min(shot, config.decision_folds))
    return kept > 0 and can_adapt(kept, config)


def require_fit(base: BaseNetwork, image_set: ImageSet) -> None:
    """Images must leave the network a location and, where each has prototypes of its own, as many as in training."""
    height, width = image_set.images.shape[1:3]
    found = base.map_size(height, width)
    if base.pooling == "flatten" and found != (trained := base.map_size(*base.preprocessing.image_size)):
        raise ConfigError(
            f"{image_set.name} has images of {width} x {height} px, {found[1]} x {found[0]} locations; {base.name} was "
            f"trained with flatten on {trained[1]} x {trained[0]} and can be tested on no other number: read the data "
            f"with image_size={base.preprocessing.image_size[0]}"
        )


class Comparison:
    """The methods of some approaches on one image set; what they read is computed when it is first needed, and once."""

    def __init__(
        self,
        base: BaseNetwork,
        image_set: ImageSet,
        approaches: Sequence[Approach],
        *,
        seed: int,
        half: bool = False,
        cache: Path | None = None,
        progress: Progress = silent,
    ) -> None:
        self.base = base
        self.image_set = image_set
        self.approaches = approaches
        self.seed = seed
        self.half = half
        self.cache = cache
        self.progress = progress
        self.methods: dict[Approach, Method] = {}
        require_fit(base, image_set)
        for approach in approaches:
            if approach.implants is not None:
                fitting_of(base, approach.pooling, approach.implants).require_implants()

    @property
    def implants(self) -> bool:
        """Whether any of the approaches trains implants."""
        return any(approach.implants is not None for approach in self.approaches)

    @cached_property
    def seen(self) -> ImageSet:
        """The images, then as many other views of them as are read."""
        return add_views(self.image_set, max(approach.views for approach in self.approaches))

    def check_cache(self) -> None:
        """Refuse a cache that is there and is not of this base and these images; nothing is computed."""
        if self.implants and self.cache is not None and (self.cache / DESCRIPTION).exists():
            compute_activations(self.base, self.seen, half=self.half, cache=self.cache)

    @cached_property
    def activations(self) -> Activations:
        """What implants read of the images, then of other views of them; and phi."""
        return compute_activations(self.base, self.seen, half=self.half, cache=self.cache, progress=self.progress)

    @cached_property
    def phi(self) -> Float[Tensor, "row location dim"]:
        """phi of the images, then of the other views of them that prototypes average."""
        views = max(approach.pooling.support_views for approach in self.approaches)
        if self.implants:
            return self.activations.phi[: views * len(self.image_set)].float()
        return embed_together(self.base, add_views(self.image_set, views).images, self.progress)

    def method(self, approach: Approach) -> Method:
        """The method of one of the approaches; the same one whenever it is asked for, as it may keep what it pooled."""
        if approach not in self.methods:
            self.methods[approach] = self._method(approach)
        return self.methods[approach]

    def _method(self, approach: Approach) -> Method:
        rows = approach.views * len(self.image_set)
        if approach.implants is None:
            return prototype_method(self.base, self.phi[:rows], approach.pooling)
        activations = self.activations.first(rows)
        implants = implant_method(self.base, activations, approach.pooling, approach.implants, self.seed)
        return DecidedMethod(implants) if approach.decides else implants
