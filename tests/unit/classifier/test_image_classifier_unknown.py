"""`FewShotClassifier`: "none of these"."""

import dataclasses

import numpy as np
import pytest

from implanting.base import BaseNetwork
from implanting.classifier.estimator import FewShotClassifier
from implanting.errors import CannotRefuse
from implanting.fewshot import Calibration
from toy_classifier import IMAGES, NAMES, NUMBERS, TRAINED, all_classes, fitted
from toys import noise


def test_none_of_these(new):
    classifier = fitted(new(unknown="none of these", refuse=0.2))
    strangers = noise(12, 32, 32, 3, seed=5).numpy()
    scores = {name: classifier.open_set_score(part) for name, part in (("known", IMAGES), ("strange", strangers))}
    assert np.median(scores["strange"]) > np.median(scores["known"])  # higher is less likely any class
    refused = scores["strange"] > classifier.learned_.calibration.threshold(0.2)
    assert refused.any()
    assert (classifier.predict(strangers) == "none of these").tolist() == refused.tolist()
    assert all_classes(classifier) == sorted({*NAMES.tolist()})
    probabilities = classifier.predict_proba(strangers)
    assert probabilities.shape == (12, 4)
    assert np.array_equal(probabilities, classifier.set_params(unknown=None).predict_proba(strangers))
    assert "none of these" not in classifier.predict(strangers)


def test_the_more_may_be_refused_the_more_is(base):
    classifier = fitted(FewShotClassifier(base, implants=False, unknown="?"))
    images = np.concatenate([IMAGES, noise(12, 32, 32, 3, seed=5).numpy()])
    refused = [(classifier.set_params(refuse=share).predict(images) == "?").sum() for share in (0.1, 0.3, 0.6, 0.9)]
    assert refused == sorted(refused)
    assert refused[0] < refused[-1]


@pytest.mark.parametrize(("labels", "unknown"), [(NUMBERS, "other"), (NUMBERS.astype(np.uint8), 1000), (NAMES, -1)])
def test_the_unknown_label_may_be_of_another_kind(base, labels, unknown):
    classifier = fitted(FewShotClassifier(base, implants=False, unknown=unknown, refuse=0.5), labels)
    images = np.concatenate([IMAGES[TRAINED], noise(2, 32, 32, 3).numpy()])
    answers = classifier.predict(images).tolist()
    assert answers[-1] == unknown
    named = [answer for answer in answers if answer != unknown]
    assert {type(answer) for answer in named} == {type(labels.tolist()[0])}
    assert classifier.score(images[:16], labels[TRAINED]) == np.mean([answer != unknown for answer in answers[:16]])


def test_it_says_where_images_are_too_few_to_refuse_any(base):
    classifier = FewShotClassifier(base, unknown="none").fit(IMAGES[:4], NAMES[:4])
    with pytest.warns(CannotRefuse, match="no image is answered 'none': 0 held-out images"):
        assert "none" not in classifier.predict(noise(5, 32, 32, 3))


def test_scores_stored_in_the_base_tell_where_supports_cannot(base):
    stored = Calibration(1.0, tuple(np.linspace(-1, -0.9, 100).tolist()), "base").document()
    training = dataclasses.replace(base.description.training, calibration=stored)
    described = dataclasses.replace(base.description, training=training)
    taught = BaseNetwork.from_training(base.network, base.classifier, described)
    classifier = FewShotClassifier(taught, unknown="none").fit(IMAGES[:4], NAMES[:4])
    assert classifier.predict(noise(5, 32, 32, 3)).tolist() == ["none"] * 5
