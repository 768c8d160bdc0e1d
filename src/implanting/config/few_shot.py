"""Settings of few-shot tasks and of the methods that answer them: prototypes, implants (stage 2) and their rivals."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from implanting.config.checking import MOST_STEPS, require, require_listed, require_seed, require_views
from implanting.config.names import TestPooling, TestQueryPooling
from implanting.errors import ConfigError


@dataclass(frozen=True)
class TaskConfig:
    """The shape and number of few-shot tasks; together with an image set, it determines all of them."""

    way: int = 5
    """Classes per task."""
    shot: int = 5
    """Support images per class."""
    queries: int = 30
    """Query images per class."""
    tasks: int = 10_000
    """Number of tasks."""
    seed: int = 0
    """Seed of the tasks: task i depends only on the seed and i."""

    def __post_init__(self) -> None:
        require_seed(self.seed)
        require(self.way >= 2, "way", self.way, "2 or more")
        for name in ("shot", "queries", "tasks"):
            require(1 <= getattr(self, name) <= MOST_STEPS, name, getattr(self, name), f"from 1 to {MOST_STEPS}")


@dataclass(frozen=True)
class InferenceConfig:
    """How supports and queries are pooled at test time."""

    support_pooling: TestPooling | None = None
    """Pooling of a support's map into a vector: mean, maximum, generalised mean, or that without most of what all base
    images have in common; default: gem-centred for fc100, miniimagenet and others that know it, otherwise gap."""
    query_pooling: TestQueryPooling | None = None
    """Pooling of a query; default: dense for a densely trained base, gem-centred as above, otherwise gap."""
    support_views: int = 1
    """Fixed views of each support that prototypes average: 1 is the image, 2 adds its mirror image, 6 four shifts."""
    query_views: int = 1
    """The same views of each query, classified like further locations of it; by prototypes without implants only."""

    def __post_init__(self) -> None:
        require_listed(self)
        require_views(self.support_views, "support_views")
        require_views(self.query_views, "query_views")
        if (self.support_pooling == "gem-centred") != (self.query_pooling == "gem-centred"):
            raise ConfigError("gem-centred pools supports and queries alike: set `support_pooling` and `query_pooling`")

    def with_default(self, pooling: TestPooling | None) -> "InferenceConfig":
        """The same with this pooling of supports and queries, unless either is set."""
        if pooling is None or self.support_pooling is not None or self.query_pooling is not None:
            return self
        return replace(self, support_pooling=pooling, query_pooling=pooling)

    @property
    def views(self) -> int:
        """Views of each image that are read."""
        return max(self.support_views, self.query_views)


@dataclass(frozen=True)
class ImplantConfig:
    """Stage 2: training implants on leave-one-out subtasks of a task's supports."""

    implant_channels: int = 16
    """New channels per implanted layer (in ResNet-12, the convolutions of the last block)."""
    implant_epochs: int = 50
    """Number of full-batch steps of AdamW; with 0, implants stay as they were drawn (random implants)."""
    implant_learning_rate: float = 6e-3
    """Learning rate of AdamW; chosen on validation classes (docs/lab-log.md)."""
    implant_tau: float = 10.0
    """Fixed scale of the cosine, both while implants are trained and at test time."""
    implant_share: float | None = None
    """Largest share of the squared length of the supports' features that trained implants may have; a larger one is
    scaled down. 1: never, as in the paper. Default: chosen for each task on supports held out of a second training,
    or 0.1 with fewer than four supports of a class."""
    adapt_support_pooling: Literal["gap", "gmp"] = "gap"
    """Pooling of a support's map into a vector while implants are trained."""
    adapt_query_pooling: Literal["gap", "gmp", "dense"] = "gap"
    """Pooling of a left-out support while implants are trained."""
    adapt_views: int = 1
    """Fixed views of each support on which implants are trained; 2 or more make implants possible at 1 shot."""
    implant_decision: Literal["always", "held-out"] = "always"
    """always: implants in every task. held-out: except where held-out supports are clearly less likely with them."""
    decision_folds: int = 5
    """Number of parts into which each class's supports are divided; each part is held out in turn."""
    decision_margin: float = 1.0
    """Standard errors by which held-out supports must be less likely with implants for a task not to use them."""

    def __post_init__(self) -> None:
        require_listed(self)
        for name, fewest in (("implant_channels", 1), ("implant_epochs", 0)):
            value = getattr(self, name)
            require(fewest <= value <= MOST_STEPS, name, value, f"from {fewest} to {MOST_STEPS}")
        for name in ("implant_learning_rate", "implant_tau"):
            require(0 < getattr(self, name) < math.inf, name, getattr(self, name), "a number above 0")
        share = self.implant_share
        require(share is None or 0 < share <= 1, "implant_share", share, "above 0, up to 1")
        require(0 <= self.decision_margin < math.inf, "decision_margin", self.decision_margin, "a number, 0 or more")
        require_views(self.adapt_views, "adapt_views")
        require(self.decision_folds >= 2, "decision_folds", self.decision_folds, "2 or more")


@dataclass(frozen=True)
class RivalConfig:
    """Settings of the other methods, chosen by --method; tuned on validation classes (docs/lab-log.md)."""

    logistic_strength: float = 3.0
    """logistic: the inverse of the penalty on the weights, as scikit-learn's C."""
    cosine_steps: int = 30
    """baseline++: full-batch steps on the supports."""
    cosine_learning_rate: float = 3e-4
    """baseline++: learning rate of AdamW."""
    block_steps: int = 10
    """last-block: full-batch steps on the leave-one-out subtasks of the supports."""
    block_learning_rate: float = 1e-4
    """last-block: learning rate of AdamW."""
    imprint_steps: int = 0
    """imprinted: steps of fine-tuning on base images and supports; 0 imprints only."""
    imprint_learning_rate: float = 1e-3
    """imprinted: learning rate of these steps."""

    def __post_init__(self) -> None:
        for name in ("cosine_steps", "block_steps", "imprint_steps"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        for name in ("logistic_strength", "cosine_learning_rate", "block_learning_rate", "imprint_learning_rate"):
            require(0 < getattr(self, name) < math.inf, name, getattr(self, name), "a number above 0")
