"""Plain sentences from findings."""

import numpy as np

from implanting.advice import Examples, check, sentences


def examples(labels: list[int], answers: list[int], thumbnails: np.ndarray | None = None) -> Examples:
    """Examples of elm, oak and ash whose cross-fitted answers are quite sure."""
    given = np.full((len(labels), 3), 0.05, np.float32)
    given[np.arange(len(labels)), answers] = 0.9
    names = [str(number) for number in range(len(labels))]
    return Examples(names, ("elm", "oak", "ash"), np.array(labels), given, thumbnails)


def said(of: Examples) -> list[tuple[str, int | None]]:
    return [(one.text, one.about) for one in sentences(of, check(of))]


def test_frequent_mistakes_and_small_classes_are_named() -> None:
    labels = [0] * 5 + [1] * 6 + [2] * 4
    answers = [0, 0, 1, 1, 1] + [1] * 6 + [2] * 4
    assert said(examples(labels, answers)) == [
        ("3 photos may have the wrong label: look at the list below.", None),
        ("3 of 5 elm photos were taken for oak: add elm photos that differ from oak.", 0),
        ("ash has 4 photos: add 1 more, unlike those that are there.", 2),
    ]


def test_a_photo_in_two_classes_comes_first() -> None:
    labels = [0] * 5 + [1] * 5 + [2] * 5
    thumbnails = np.random.default_rng(0).integers(0, 256, (15, 16, 16, 3), dtype=np.uint8)
    thumbnails[7] = thumbnails[0]
    assert said(examples(labels, labels, thumbnails)) == [
        ("1 photo is in more than one class: keep it in the right one.", None)
    ]


def test_one_mistake_alone_is_not_worth_a_sentence() -> None:
    labels = [0] * 5 + [1] * 5 + [2] * 5
    of = examples(labels, [1, *labels[1:]])
    of.probabilities[0] = (0.4, 0.5, 0.1)  # not so sure that the label is doubted
    assert said(of) == []
