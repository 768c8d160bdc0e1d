"""Photos to label next: uncertain, and unlike each other."""

import numpy as np
import pytest

from implanting.advice import examples_of, suggest
from implanting.advice.suggesting import choose, uncertainty
from implanting.classifier.estimator import FewShotClassifier
from implanting.errors import ConfigError, DataError
from toy_classifier import ASKED, IMAGES, NAMES, fitted


def unit(*angles: float) -> np.ndarray:
    radians = np.deg2rad(angles)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def test_a_tie_is_most_uncertain():
    given = np.array([[0.5, 0.5, 0.0], [0.9, 0.05, 0.05], [1.0, 0.0, 0.0]])
    assert uncertainty(given) == pytest.approx([1.0, 0.15, 0.0])


def test_one_of_each_group_is_chosen_and_the_least_certain_comes_first():
    given = np.array([[0.5, 0.5], [0.51, 0.49], [0.6, 0.4], [0.61, 0.39], [0.7, 0.3], [0.71, 0.29]])
    chosen = choose(given, unit(0, 1, 90, 91, 180, 181), 3)
    assert [row // 2 for row in chosen] == [0, 1, 2]
    assert choose(given, unit(0, 1, 90, 91, 180, 181), 3) == chosen


def test_certain_photos_hardly_count():
    given = np.array([[1.0, 0.0]] * 20 + [[0.5, 0.5]] * 4)
    angles = [*np.linspace(0, 60, 20), 120, 121, 200, 201]
    assert sorted(row // 2 for row in choose(given, unit(*angles), 2)) == [10, 11]


def test_no_more_than_there_are_and_equal_ones_too():
    given = np.full((5, 2), 0.5)
    assert sorted(choose(given, unit(0, 0, 0, 0, 0), 99)) == [0, 1, 2, 3, 4]
    assert len(set(choose(given, unit(0, 0, 0, 0, 0), 3))) == 3


def test_suggestions_name_the_two_likeliest_classes_and_what_does_not_decode(base):
    classifier = fitted(FewShotClassifier(base, implants=False))
    images = [*IMAGES[ASKED], b"no image"]
    suggested, failures = suggest(classifier, images, 3)
    assert len(suggested) == 3
    assert [failure.index for failure in failures] == [8]
    places = [next(at for at, image in enumerate(images) if image is one.source) for one in suggested]
    assert len(set(places)) == 3
    given = classifier.predict_proba(IMAGES[ASKED])
    assert uncertainty(given)[places[0]] == uncertainty(given)[places].max()
    best = np.sort(given[places[0]])[::-1][:2]
    assert [probability for _, probability in suggested[0].likeliest] == pytest.approx(best, abs=1e-5)


def test_nothing_to_suggest_from(base):
    classifier = fitted(FewShotClassifier(base, implants=False))
    with pytest.raises(DataError, match="no image to suggest from"):
        suggest(classifier, [])
    with pytest.raises(DataError, match="none of the 1 images decodes"):
        suggest(classifier, [b"no image"])
    with pytest.raises(ConfigError, match="`count` is 0"):
        suggest(classifier, list(IMAGES[ASKED]), 0)


def test_examples_are_answered_without_themselves(base):
    """A wrong label is answered with the class that the image is of, which a fit to it would have learned."""
    labels = NAMES.copy()
    wrong = int(np.flatnonzero(labels[:16] == "oak")[0])
    labels[wrong] = "ash"
    classifier = fitted(FewShotClassifier(base, implants=False, keep_supports=True), labels)
    examples = examples_of(classifier)
    assert examples.classes == ("ash", "beech", "oak", "élm")
    assert examples.names[0] == f"{labels[0]}, example 1"
    assert examples.asked.all()
    assert examples.classes[int(examples.probabilities[wrong].argmax())] == "oak"
    assert np.allclose(examples.probabilities.sum(1), 1, atol=1e-5)


def test_an_example_alone_in_its_class_has_no_answer(base):
    keep = [0, 4, 1, 5, 2]
    classifier = FewShotClassifier(base, implants=False, keep_supports=True).fit(IMAGES[keep], NAMES[keep])
    assert examples_of(classifier).asked.tolist() == [True, True, True, True, False]


def test_examples_of_a_classifier_that_was_changed_since(base):
    classifier = fitted(FewShotClassifier(base, implants=False))
    with pytest.raises(DataError, match="3 names are given for 16 examples"):
        examples_of(classifier, ["a", "b", "c"])
    classifier.add_images(IMAGES[16:18], NAMES[16:18])
    with pytest.raises(ConfigError, match="fit it again, or check the folder"):
        examples_of(classifier)
