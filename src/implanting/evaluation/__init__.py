"""Thousands of tasks: what is compared (`approaches`), on which tasks (`task_images`), what is read (`features`).

`compare` is the one way through to results: `evaluate`, the command line and the paper's tables all call it.
"""

from implanting.evaluation.approaches import Approach, Classes, Trial, approach_of
from implanting.evaluation.comparison import compare
from implanting.evaluation.front_door import evaluate
from implanting.evaluation.held_out import EXTRA_SPLIT, extra_images, held_out_images
from implanting.evaluation.task_images import TaskImages

__all__ = [
    "EXTRA_SPLIT",
    "Approach",
    "Classes",
    "TaskImages",
    "Trial",
    "approach_of",
    "compare",
    "evaluate",
    "extra_images",
    "held_out_images",
]
