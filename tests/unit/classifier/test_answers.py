"""Probabilities and open-set scores that one can read, as labels and rankings."""

import numpy as np
import pytest
import torch

from implanting.classifier.labels import Answering
from implanting.errors import CannotRefuse
from implanting.fewshot import UNKNOWN, Calibration

CLASSES = np.array(["ash", "elm", "oak"])
PROBABILITIES = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1], [0.2, 0.5, 0.3]])
SCORES = torch.tensor([-0.9, -0.2, -0.8])
KNOWN = Calibration(1.0, tuple(np.linspace(-1, -0.5, 21).tolist()), "supports")


def answering(classes=CLASSES, calibration=KNOWN, unknown=None, refuse=0.1) -> Answering:
    return Answering(classes, calibration, unknown, refuse)


def test_the_most_probable_class_is_the_answer():
    assert answering().labels(PROBABILITIES, SCORES).tolist() == ["oak", "ash", "elm"]


def test_what_fits_no_class_is_unknown():
    labels = answering(unknown="none of these").labels(PROBABILITIES, SCORES)
    assert labels.tolist() == ["oak", "none of these", "elm"]
    assert answering(unknown="?", refuse=0.9).labels(PROBABILITIES, SCORES).tolist() == ["?", "?", "?"]


def test_an_unknown_label_of_another_kind_leaves_the_classes_as_they_are():
    numbers = np.array([3, 4, 5], dtype=np.uint8)
    assert answering(numbers, unknown=1000).labels(PROBABILITIES, SCORES).tolist() == [5, 1000, 4]
    assert answering(unknown=-1).labels(PROBABILITIES, SCORES).tolist() == ["oak", -1, "elm"]


def test_where_nothing_is_known_nothing_is_refused_and_that_is_said():
    with pytest.warns(CannotRefuse, match=r"no image is answered '\?': 0 held-out images .* for 10 % refused images"):
        labels = answering(calibration=UNKNOWN, unknown="?").labels(PROBABILITIES, SCORES)
    assert labels.tolist() == ["oak", "ash", "elm"]


def test_rankings_begin_with_the_most_probable():
    first, second, third = answering().rankings(PROBABILITIES, 2)
    assert [label for label, _ in first] == ["oak", "elm"]
    assert [label for label, _ in second] == ["ash", "elm"]
    assert [label for label, _ in third] == ["elm", "oak"]
    assert [probability for _, probability in first] == pytest.approx([0.7, 0.2])
    assert [len(ranking) for ranking in answering().rankings(PROBABILITIES, 9)] == [3, 3, 3]
    assert answering().rankings(PROBABILITIES[:0], 2) == []
