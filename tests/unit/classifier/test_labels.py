import numpy as np
import pytest
import torch

from implanting.classifier.labels import Answering, as_labels, class_numbers, some
from implanting.errors import ConfigError, DataError
from implanting.fewshot.calibration import UNKNOWN


@pytest.mark.parametrize("labels", [["oak", "elm", "oak"], [3, 1, 3], np.array(["a", "b", "c"]), (7, 8, 9)])
def test_labels_come_back_as_given(labels):
    array = as_labels(labels, 3)
    classes = np.unique(array)
    assert classes[class_numbers(array, classes).numpy()].tolist() == list(labels)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "b"], "3 images have labels of shape"),
        ([["a"], ["b"], ["c"]], "one label per image"),
        (["a", 1, "b"], "some labels are strings"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message):
    with pytest.raises(DataError, match=message):
        as_labels(labels, 3)


def test_a_class_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match="no class 'ash'; there are 'elm', 'oak'"):
        class_numbers(np.array(["ash"]), np.array(["elm", "oak"]))


def test_many_labels_are_shortened():
    assert some(list(range(10)), 2) == "0, 1 and 8 more"


def test_on_ties_the_answer_is_the_first_of_the_ranking():
    answering = Answering(np.array(list("abcdefgh")), UNKNOWN, None, 0.05)
    probabilities = torch.full((50, 8), 0.125)
    probabilities[:, 2] = torch.rand(50).round() * 0.125
    labels, rankings = answering.labels(probabilities, torch.zeros(50)), answering.rankings(probabilities, 8)
    assert labels.tolist() == [ranking[0][0] for ranking in rankings]
    assert [[name for name, _ in answering.rankings(torch.full((1, 8), 0.125), 3)[0]]] == [["a", "b", "c"]]


@pytest.mark.parametrize("labels", [[2**63, -1], ["a\0", "a"], ["a\0b", "c"], [2**64, -1, 0.5]])
def test_labels_that_a_common_type_would_merge_are_refused(labels):
    with pytest.raises(DataError, match="label"):
        as_labels(labels, len(labels))
