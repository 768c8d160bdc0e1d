"""Every setting with its default: the only home of a default.

Frozen dataclasses of plain values: the command line derives its flags and help from them, and a checkpoint stores
them as JSON. The text below a field is its help; a field without one takes that of the same field in `HELP_FROM`.
"""

from implanting.config.checking import (
    LARGEST_SIDE,
    VIEWS,
    require,
    require_listed,
    require_side,
)
from implanting.config.few_shot import ImplantConfig, InferenceConfig, RivalConfig, TaskConfig
from implanting.config.names import (
    CLASSIFYING,
    LOWERED,
    LinearMethod,
    MethodName,
    NetworkName,
    Pooling,
    Precision,
    QueryPooling,
    SupportPooling,
    TestPooling,
    TestQueryPooling,
    TrainingMethod,
)
from implanting.config.stage_one import (
    WIDE_CHANNELS,
    AugmentConfig,
    DataConfig,
    EpisodeConfig,
    NetworkConfig,
    PretrainConfig,
    RecipeChanges,
)
from implanting.config.stored import config_from_dict, flat, retired_settings
from implanting.config.use import MEMORY_BUDGET, ClassifierConfig, RunConfig, ThreadsConfig

__all__ = [
    "CLASSIFYING",
    "LARGEST_SIDE",
    "LOWERED",
    "MEMORY_BUDGET",
    "VIEWS",
    "WIDE_CHANNELS",
    "AugmentConfig",
    "ClassifierConfig",
    "DataConfig",
    "EpisodeConfig",
    "ImplantConfig",
    "InferenceConfig",
    "LinearMethod",
    "MethodName",
    "NetworkConfig",
    "NetworkName",
    "Pooling",
    "Precision",
    "PretrainConfig",
    "QueryPooling",
    "RecipeChanges",
    "RivalConfig",
    "RunConfig",
    "SupportPooling",
    "TaskConfig",
    "TestPooling",
    "TestQueryPooling",
    "ThreadsConfig",
    "TrainingMethod",
    "config_from_dict",
    "flat",
    "require",
    "require_listed",
    "require_side",
    "retired_settings",
]
