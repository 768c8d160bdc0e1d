"""Stage 1: train a network on base classes with a cosine classifier, at every location or pooled.

A run is saved at intervals and can be resumed to the same weights. The result is a base network. This room knows
nothing of implants.
"""

from implanting.pretraining.batches import batch
from implanting.pretraining.events import Event, Finished, Started, Stepped, Stopped
from implanting.pretraining.joining import generalised, join
from implanting.pretraining.layout import Layout, fastest_layout, training_speed
from implanting.pretraining.optimisation import MOMENTUM
from implanting.pretraining.precision import gain_of_bf16
from implanting.pretraining.preparation import Output, prepare
from implanting.pretraining.recipes import RECIPES, RecipeName, with_method
from implanting.pretraining.resuming import FREE, check_same
from implanting.pretraining.run import Run
from implanting.pretraining.training import pretrain
from implanting.pretraining.training_log import TrainingLog, plot_training

__all__ = [
    "FREE",
    "MOMENTUM",
    "RECIPES",
    "Event",
    "Finished",
    "Layout",
    "Output",
    "RecipeName",
    "Run",
    "Started",
    "Stepped",
    "Stopped",
    "TrainingLog",
    "batch",
    "check_same",
    "fastest_layout",
    "gain_of_bf16",
    "generalised",
    "join",
    "plot_training",
    "prepare",
    "pretrain",
    "training_speed",
    "with_method",
]
