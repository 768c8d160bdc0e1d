import json

import pytest

from implanting.base import TrainingFacts, Validation

TESTED = Validation(50, "prototypes (gap/dense)", 5, 5, 0.4711, 0.007, 500)
BEFORE = {
    "step": 50,
    "steps": 60,
    "finished": False,
    "seconds": 31.5,
    "images_per_second": 102.0,
    "device": "cpu",
    "processes": 2,
    "threads": 1,
    "loss": 3.7,
    "accuracy": 0.1,
    "tau": 8.9,
    "validation": [
        {
            "step": 50,
            "method": "prototypes (gap/dense)",
            "way": 5,
            "shot": 5,
            "mean": 0.4711,
            "interval": 0.007,
            "tasks": 500,
        }
    ],
    "calibration": None,
}
"""As version 0.1.0 wrote it."""


@pytest.mark.parametrize(
    ("interval", "tasks", "said"),
    [(0.007, 500, " ± 0.70 % (5-way 1-shot, 500 tasks)"), (None, 1, " % (5-way 1-shot, 1 task)")],
)
def test_a_validation_in_words(interval, tasks, said):
    assert str(Validation(7, "prototypes", 5, 1, 0.4711, interval, tasks)) == "47.11" + said


def test_facts_keep_the_keys_of_earlier_versions():
    facts = TrainingFacts.from_document(BEFORE)
    assert facts.validation == (TESTED,)
    assert (facts.step, facts.finished, facts.processes, facts.loss) == (50, False, 2, 3.7)
    assert json.loads(json.dumps(facts.document())) == BEFORE


def test_facts_that_were_not_noted_are_unknown():
    facts = TrainingFacts.from_document(
        {"step": 6, "steps": 6, "finished": True, "seconds": 1.5, "device": "cpu", "validation": [], "later": 1}
    )
    assert facts == TrainingFacts(6, 6, 1.5, "cpu")
    assert facts.finished
    assert facts.loss is None


def test_a_row_of_results_says_nothing_of_steps():
    assert list(TESTED.row()) == ["method", "way", "shot", "mean", "interval", "tasks"]
