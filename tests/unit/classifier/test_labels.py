import numpy as np
import pytest

from implanting.classifier.labels import as_labels, class_numbers, some
from implanting.errors import ConfigError, DataError


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
