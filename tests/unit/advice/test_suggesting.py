"""Photos to label next: uncertain, and unlike each other."""

import numpy as np
import pytest
import torch

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


def test_of_two_alike_the_second_waits():
    given = np.array([[0.5, 0.5], [0.51, 0.49], [0.6, 0.4], [0.99, 0.01]])
    assert choose(given, unit(0, 1, 90, 180), 3) == [0, 2, 3]
    assert choose(given, unit(0, 1, 90, 180), 99) == [0, 2, 3, 1]


def test_suggestions_name_the_two_likeliest_classes_and_what_does_not_decode(base):
    classifier = fitted(FewShotClassifier(base, implants=False))
    images = [*IMAGES[ASKED], b"no image"]
    suggested, failures = suggest(classifier, images, 3)
    assert len(suggested) == 3
    assert [failure.index for failure in failures] == [8]
    places = [next(at for at, image in enumerate(images) if image is one.source) for one in suggested]
    assert len(set(places)) == 3
    given = classifier.predict_proba(IMAGES[ASKED])
    assert places[0] == uncertainty(given).argmax()
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
    """The twin: prototypes of the other examples alone."""
    classifier = fitted(FewShotClassifier(base, implants=False, keep_supports=True))
    examples = examples_of(classifier)
    assert examples.classes == ("ash", "beech", "oak", "élm")
    assert examples.names[0] == f"{NAMES[0]}, example 1"
    learned = classifier.learned_
    images, labels = learned.supports
    vectors = torch.nn.functional.normalize(learned.base.embed(images).mean(1), dim=1)
    for held_out in (0, 7):
        kept = torch.arange(len(labels)) != held_out
        means = torch.stack([vectors[kept & (labels == number)].mean(0) for number in range(4)])
        cosines = torch.nn.functional.normalize(means, dim=1) @ vectors[held_out]
        expected = learned.calibration.sharpen(torch.softmax(learned.classify.tau * cosines, 0)[None])[0]
        assert examples.probabilities[held_out] == pytest.approx(expected.numpy(), abs=1e-5)


def test_examples_that_were_not_kept(base):
    with pytest.raises(ConfigError, match="fit it with `keep_supports`"):
        examples_of(fitted(FewShotClassifier(base, implants=False)))
