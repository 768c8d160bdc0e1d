import numpy as np

from implanting.cli.verbs.evaluate_report import accuracy_rows
from implanting.config import TaskConfig
from implanting.fewshot import Result


def result(shot: int, *per_task: float) -> Result:
    config = TaskConfig(shot=shot, tasks=len(per_task))
    return Result("toy", config, "images", np.array(per_task), np.eye(2, dtype=int))


def test_gains_are_paired_and_a_shot_without_a_result_stays_empty() -> None:
    methods = {"first": {1: result(1, 0.2, 0.4), 5: result(5, 0.5, 0.7)}, "second": {5: result(5, 0.6, 0.8)}}
    assert accuracy_rows(methods, {"gain": ("second", "first")}) == [
        ["first", "30.00 ± 19.60", "60.00 ± 19.60"],
        ["second", "", "70.00 ± 19.60"],
        ["gain", "", "+10.00 ± 0.00"],
    ]
