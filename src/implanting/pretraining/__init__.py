"""Stage 1: train a network on base classes with a cosine classifier, at every location or pooled.

A run is saved as it goes and resumed to the same weights. What comes out is a base network; this room knows nothing of
implants.
"""

from implanting.pretraining.batches import batch
from implanting.pretraining.optimisation import MOMENTUM
from implanting.pretraining.recipes import RECIPES, RecipeName
from implanting.pretraining.run import FREE, Run, check_output, check_same, prepare
from implanting.pretraining.training import pretrain, train_step
from implanting.pretraining.training_log import TrainingLog, plot_training
from implanting.pretraining.validation import why_no_validation

__all__ = [
    "FREE",
    "MOMENTUM",
    "RECIPES",
    "RecipeName",
    "Run",
    "TrainingLog",
    "batch",
    "check_output",
    "check_same",
    "plot_training",
    "prepare",
    "pretrain",
    "train_step",
    "why_no_validation",
]
