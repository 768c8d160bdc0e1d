"""Thousands of tasks: which method answers so many shots, what it reads, and what comes out.

`evaluate` is the one way through: the library, the command line and the paper's tables all call it.
"""

from implanting.evaluation.comparison import Approach, Comparison
from implanting.evaluation.front_door import Classes, KnownClasses, check_classes, evaluate, evaluate_poolings
from implanting.evaluation.held_out import EXTRA_SPLIT, extra_images, held_out_images

__all__ = [
    "EXTRA_SPLIT",
    "Approach",
    "Classes",
    "Comparison",
    "KnownClasses",
    "check_classes",
    "evaluate",
    "evaluate_poolings",
    "extra_images",
    "held_out_images",
]
