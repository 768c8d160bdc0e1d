import pytest

from toy_report import shown

CLASSES = ("oak", "elm", "ash")


@pytest.mark.parametrize(
    ("truth", "answer", "maps"),
    [
        ("oak", "oak", ("oak", "elm")),  # right: the runner-up beside it
        ("ash", "oak", ("oak", "ash")),  # wrong: the true class beside it
        ("ash", "none of these", ("oak", "ash")),
        ("fir", "elm", ("elm", "oak")),  # the true class is not the classifier's
    ],
)
def test_the_two_classes_that_matter_are_shown(truth, answer, maps):
    assert shown(truth, answer, CLASSES).explanation.classes == maps
