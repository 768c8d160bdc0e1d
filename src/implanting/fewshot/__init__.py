"""Few-shot tasks as index tensors, the methods that answer them without training, and the results.

Tasks are drawn once and shared by all methods under comparison. Nothing in this room trains a network or implants.
"""

from implanting.fewshot.by_class_weights import base_class_method, joint_method, require_class_weights
from implanting.fewshot.by_prototypes import PrototypeMethod, prototype_method
from implanting.fewshot.calibration import UNKNOWN, Calibration, calibrate, calibration_error, open_set_score, sharpness
from implanting.fewshot.folds import NEVER, assign_folds, rank_in_class
from implanting.fewshot.gathering import vectors_are_smaller
from implanting.fewshot.logistic_regression import LinearClassifier, fit_dual, logistic_regression
from implanting.fewshot.loop import Counts, chunks_of, evaluate_tasks, room_for
from implanting.fewshot.method import Method, Queries, counted, in_views, named
from implanting.fewshot.results import Estimate, Result, Share, mean_of
from implanting.fewshot.tasks import Tasks, arrays_of, draw_queries, draw_tasks
from implanting.fewshot.tau import with_tau_from

__all__ = [
    "NEVER",
    "UNKNOWN",
    "Calibration",
    "Counts",
    "Estimate",
    "LinearClassifier",
    "Method",
    "PrototypeMethod",
    "Queries",
    "Result",
    "Share",
    "Tasks",
    "arrays_of",
    "assign_folds",
    "base_class_method",
    "calibrate",
    "calibration_error",
    "chunks_of",
    "counted",
    "draw_queries",
    "draw_tasks",
    "evaluate_tasks",
    "fit_dual",
    "in_views",
    "joint_method",
    "logistic_regression",
    "mean_of",
    "named",
    "open_set_score",
    "prototype_method",
    "rank_in_class",
    "require_class_weights",
    "room_for",
    "sharpness",
    "vectors_are_smaller",
    "with_tau_from",
]
