"""The names that settings choose from."""

from typing import Literal

Pooling = Literal["dense", "gap", "gmp", "flatten"]
"""How maps are classified in training."""

SupportPooling = Literal["gap", "gmp", "gem"]
"""How the map of a support becomes a vector."""

QueryPooling = Literal["gap", "gmp", "gem", "dense"]
"""How a query is classified: as such a vector, or at each location."""

TestPooling = Literal["gap", "gmp", "gem", "gem-centred"]
"""How supports are pooled in tests: gem-centred needs a base that has a mean of its base images."""

TestQueryPooling = Literal["gap", "gmp", "gem", "gem-centred", "dense"]
"""How queries are classified in tests."""

NetworkName = Literal["resnet12", "c128f", "c64f"]

Precision = Literal["auto", "single", "bf16"]

TrainingMethod = Literal["cosine", "pn", "gidaris", "maml", "tadam"]
"""How a base network is trained: with a cosine classifier (the paper's stage 1), or as another system is."""

LOWERED: tuple[TrainingMethod, ...] = ("cosine", "pn", "tadam")
"""The methods whose network can be trained in bf16: it is frozen by gidaris, and too small for a gain with maml."""

CLASSIFYING: tuple[TrainingMethod, ...] = ("cosine", "gidaris")
"""The training methods that learn class weights of the base classes."""

MethodName = Literal[
    "prototypes",
    "implants",
    "random-implants",
    "last-block",
    "nearest",
    "simpleshot",
    "logistic",
    "baseline++",
    "imprinted",
    "pn",
    "gidaris",
    "maml",
    "tadam",
]
"""How tasks are answered."""

LinearMethod = Literal["logistic", "baseline++", "imprinted"]
"""The methods that are linear classifiers of one vector per image."""
