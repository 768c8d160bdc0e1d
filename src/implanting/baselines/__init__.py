"""The systems that the paper builds on and compares with, one file each: their equations, training step and answers.

A rival on frozen features reads vectors that were computed once per image. A system that is trained by episodes maps
a batch of episodes to its loss. `pretraining` draws episodes and takes gradient steps; `evaluation` reads images and
counts answers. Fine-tuning of the last block and random implants are in `implants`, because they minimise the same
cost.
"""

from implanting.baselines.catalogue import METHODS
from implanting.baselines.cosine_fine_tuning import CosineFineTuningMethod
from implanting.baselines.dynamic_few_shot import DynamicFewShot
from implanting.baselines.episodes import Episodes
from implanting.baselines.imprinted_weights import BaseExamples, ImprintedMethod
from implanting.baselines.joint import JointQueries
from implanting.baselines.linear import linear_classifier
from implanting.baselines.logistic_regression import LogisticMethod
from implanting.baselines.nearest_neighbour import NearestMethod
from implanting.baselines.simple_shot import SimpleShotMethod
from implanting.baselines.systems import System, build_system, load_own, system_method, system_of
from implanting.baselines.tadam import co_trains
from implanting.baselines.vectors import pooled

__all__ = [
    "METHODS",
    "BaseExamples",
    "CosineFineTuningMethod",
    "DynamicFewShot",
    "Episodes",
    "ImprintedMethod",
    "JointQueries",
    "LogisticMethod",
    "NearestMethod",
    "SimpleShotMethod",
    "System",
    "build_system",
    "co_trains",
    "linear_classifier",
    "load_own",
    "pooled",
    "system_method",
    "system_of",
]
