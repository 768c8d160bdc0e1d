"""A row says what its number is of, and a bad image has a row too."""

from pathlib import Path

from implanting.bulk import columns, row_of
from implanting.classifier import Answer
from implanting.images import Failure

REFUSED = Answer(Path("a.jpg"), "none of these", (("oak", 0.89), ("elm", 0.1)), -0.2)


def test_the_probability_is_that_of_the_likeliest_class():
    row = row_of(REFUSED)
    assert list(row) == columns(1)
    assert (row["class"], row["likeliest"], row["likeliest_probability"]) == ("none of these", "oak", 0.89)
    assert (row["image"], row["error"]) == ("a.jpg", None)


def test_further_classes_have_columns_of_their_own():
    row = row_of(REFUSED, 2)
    assert list(row) == columns(2)
    assert (row["class_2"], row["probability_2"]) == ("elm", 0.1)


def test_a_bad_image_has_a_row():
    row = row_of(Failure(3, Path("b.jpg"), "image b.jpg is empty"), 2)
    assert list(row) == columns(2)
    assert (row["image"], row["class"], row["error"]) == ("b.jpg", None, "image b.jpg is empty")
