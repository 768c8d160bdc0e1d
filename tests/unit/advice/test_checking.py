"""What is said of examples, from probabilities that one can read."""

import numpy as np
import pytest

from implanting.advice import Examples, check
from implanting.errors import DataError
from implanting.fewshot import Share

SURE, UNSURE = 0.9, 0.4


def examples(labels: list[int], answers: list[int], sure: list[float], classes: int = 3) -> Examples:
    """Each example is answered with a class by this probability; the others share the rest."""
    probabilities = np.empty((len(labels), classes), np.float32)
    for row, (answer, probability) in enumerate(zip(answers, sure, strict=True)):
        probabilities[row] = (1 - probability) / (classes - 1)
        probabilities[row, answer] = probability
    names = [f"{number}.jpg" for number in range(len(labels))]
    return Examples(names, ("ash", "elm", "oak")[:classes], np.array(labels), probabilities, None)


def test_a_sure_answer_of_another_class_looks_mislabelled_and_an_unsure_one_does_not():
    found = check(
        examples(
            [0, 0, 0, 1, 1, 1, 2, 2], [0, 0, 1, 1, 1, 0, 2, 2], [SURE, SURE, 0.95, *[SURE] * 2, UNSURE, SURE, SURE]
        )
    )
    (wrong,) = found.mislabelled
    assert (wrong.example, wrong.label, wrong.looks_like) == (2, 0, 1)
    assert wrong.probability == pytest.approx(0.95)
    assert wrong.own_probability == pytest.approx(0.025)
    assert found.expected == Share(6, 8)
    assert found.per_class == (Share(2, 3), Share(2, 3), Share(2, 2))


def test_the_surest_of_several_comes_first():
    found = check(examples([0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 1, 1], [SURE, 0.93, 0.99, SURE, SURE, SURE], classes=2))
    assert [one.example for one in found.mislabelled] == [2, 1]


def test_classes_are_confused_both_ways():
    found = check(examples([0, 0, 1, 1, 2, 2], [1, 0, 0, 1, 2, 0], [SURE] * 6))
    assert [(pair.classes, pair.mistakes, pair.examples) for pair in found.confused] == [((0, 1), 2, 4), ((0, 2), 1, 4)]


def test_of_two_pairs_with_as_many_mistakes_the_one_with_fewer_examples_comes_first():
    labels = [0] * 10 + [1] * 10 + [2, 2]
    found = check(examples(labels, [1, *[0] * 9, *[1] * 10, 1, 2], [SURE] * 22))
    assert [(pair.classes, pair.mistakes, pair.examples) for pair in found.confused] == [
        ((1, 2), 1, 12),
        ((0, 1), 1, 20),
    ]


def test_an_example_alone_in_its_class_is_not_asked():
    alone = examples([0, 0, 1, 1, 2], [0, 0, 1, 1, 0], [SURE] * 5)
    alone.probabilities[4] = np.nan
    found = check(alone)
    assert found.expected == Share(4, 4)
    assert found.unasked == (2,)
    assert found.mislabelled == ()


def test_one_class_cannot_be_checked():
    with pytest.raises(DataError, match="two classes or more are needed"):
        check(examples([0, 0], [0, 0], [SURE, SURE], classes=2))
