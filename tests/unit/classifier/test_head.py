"""A classifier whose head answers: when it does, what it keeps, and how it changes."""

import dataclasses
import warnings

import numpy as np
import pytest
import torch

from implanting.base import BaseNetwork, load_base
from implanting.classifier.estimator import FewShotClassifier
from implanting.classifier.learning import fitted_again
from implanting.errors import ConfigError
from rounding import assert_near
from toy_classifier import ASKED, IMAGES, NAMES, TRAINED, fitted
from toys import toy_base


def answered_by(base: BaseNetwork, images: int = 16, **settings: object) -> str:
    learned = FewShotClassifier(base, implant_epochs=1, **settings).fit(IMAGES[:images], NAMES[:images]).learned_
    return "head" if learned.head is not None else "prototypes" if learned.implants is None else "implants"


def test_who_answers(base):
    assert answered_by(base) == "implants"  # known to be better on networks that stage 1 trained
    assert answered_by(base, implants=False) == answered_by(base, head="logistic") == "head"
    assert answered_by(base, implants=True) == "implants"  # the paper's method
    assert answered_by(base, head="prototypes", implants=False) == "prototypes"
    assert answered_by(base, implants=False, query_pooling="gap") == "prototypes"
    assert answered_by(toy_base(pooling="flatten")) == "prototypes"


def test_what_cannot_be_asked_for_together(base):
    with pytest.raises(ConfigError, match="set `head` prototypes, or `implants` False"):
        answered_by(base, head="logistic", implants=True)
    with pytest.raises(ConfigError, match="trained with flatten"):
        answered_by(toy_base(pooling="flatten"), head="logistic")
    with pytest.raises(ConfigError, match="`head` is linear"):
        FewShotClassifier(base).set_params(head="linear").fit(IMAGES, NAMES)


def test_photos_are_answered_by_a_head_with_the_readings_of_the_base():
    base = load_base("efficientnet-lite0")
    classifier = FewShotClassifier(base, image_size=32).fit(IMAGES[:12], NAMES[:12])
    assert classifier.learned_.head is not None
    assert classifier.learned_.readings.vectors.shape == (12, 1, 4232)
    few = FewShotClassifier(base, image_size=32, unknown="none").fit(IMAGES[:4], NAMES[:4]).learned_
    assert few.readings.vectors.shape == (4, 2, 4232)  # with one image per class also mirrored
    assert few.calibration.told_by == "base"
    assert few.held_out.probabilities.isnan().all()


def test_a_base_that_knows_its_mean_direction_is_read_in_two_ways(tmp_path):
    base = toy_base(pooling="gap", centred=True)
    classifier = fitted(FewShotClassifier(base, unknown="none"))
    assert classifier.learned_.head is not None
    mean, rooted = classifier.learned_.readings.vectors.float().split(16, dim=2)
    for reading in (mean, rooted):
        assert torch.allclose(reading.norm(dim=2), torch.ones(16, 1), atol=2e-3)  # stored in half precision
    classifier.save(tmp_path / "both")
    again = FewShotClassifier.load(tmp_path / "both")
    assert again.base_.mean_direction is not None
    assert np.array_equal(again.predict_proba(IMAGES[ASKED]), classifier.predict_proba(IMAGES[ASKED]))
    explained = classifier.explain(IMAGES[ASKED][0], top=3)
    assert explained.kind == "evidence"


def test_held_out_examples_are_asked_of_classifiers_without_them(base):
    classifier = fitted(FewShotClassifier(base, implants=False))
    held_out = classifier.held_out_
    assert held_out.numbers.tolist() == list(range(16))
    assert classifier.classes_[held_out.labels.numpy()].tolist() == NAMES[TRAINED].tolist()
    assert torch.allclose(held_out.probabilities.sum(1), torch.ones(16))


@pytest.mark.parametrize("form", [{"head": "prototypes", "implants": False}, {"implants": True, "implant_epochs": 2}])
def test_prototypes_hold_examples_out_too(base, form):
    held_out = fitted(FewShotClassifier(base, **form)).held_out_
    assert held_out.probabilities.shape == (16, 4)
    assert torch.allclose(held_out.probabilities.sum(1), torch.ones(16))


def test_adding_a_class_gives_what_fitting_to_all_gives(base):
    whole = fitted(FewShotClassifier(base, implants=False))
    others = NAMES[TRAINED] != "beech"
    part = FewShotClassifier(base, implants=False).fit(IMAGES[TRAINED][others], NAMES[TRAINED][others])
    with warnings.catch_warnings(action="error"):
        part.add_class("beech", IMAGES[TRAINED][~others])
    assert_near(part.predict_proba(IMAGES[ASKED]), whole.predict_proba(IMAGES[ASKED]), scale=1)
    assert part.learned_.calibration.power == whole.learned_.calibration.power  # calibrated for all classes
    assert sorted(part.held_out_.numbers.tolist()) == list(range(16))
    assert part.held_out_.probabilities.shape == (16, 4)


def test_removing_what_was_added_brings_the_same_answers_back(base):
    classifier = fitted(FewShotClassifier(base, implants=False))
    before, calibration = classifier.predict_proba(IMAGES[ASKED]), classifier.learned_.calibration
    classifier.add_class("fir", IMAGES[ASKED]).remove_class("fir")
    assert np.array_equal(classifier.predict_proba(IMAGES[ASKED]), before)
    assert classifier.learned_.calibration == calibration


def test_half_precision_changes_no_answer(base):
    classifier = fitted(FewShotClassifier(base, implants=False))
    learned = classifier.learned_
    exact = torch.stack([base.read(torch.from_numpy(IMAGES[TRAINED]))], 1)
    full = fitted_again(
        dataclasses.replace(learned, readings=dataclasses.replace(learned.readings, vectors=exact.half()))
    )
    assert_near(full.head.class_weights, learned.head.class_weights)
    assert (exact - learned.readings.vectors.float()).abs().max() < 1e-3


def test_evidence_is_on_average_the_score_that_the_class_gets(base):
    classifier = fitted(FewShotClassifier(base, implants=False))
    explained = classifier.explain(IMAGES[20], top=4)
    assert explained.kind == "evidence"
    scores = torch.from_numpy(explained.map).mean((1, 2))
    assert_near(scores.softmax(0), explained.probabilities, scale=1)
    similar = classifier.explain(IMAGES[20], top=4, kind="similarity").map
    assert np.abs(similar).max() <= 1
    shares = classifier.explain(IMAGES[20], top=4, kind="softmax").map
    assert np.allclose(shares.sum(0), 1, atol=1e-5)


def test_prototypes_have_no_evidence(base):
    with pytest.raises(ConfigError, match="`kind` evidence"):
        fitted(FewShotClassifier(base, head="prototypes", implants=False)).explain(IMAGES[0], kind="evidence")


@pytest.mark.parametrize("labels", [["a", "b", "b", "b"], ["a", "a", "b", "b"], ["a", "b", "c", "d"]])
def test_black_and_identical_images_get_an_answer(base, labels):
    for images in (np.zeros((4, 32, 32, 3), np.uint8), np.repeat(IMAGES[:1], 4, 0)):
        classifier = FewShotClassifier(base, implants=False).fit(images, labels)
        probabilities = classifier.predict_proba(images)
        assert np.allclose(probabilities, 1 / len(set(labels)), atol=1e-2)


def test_a_thousand_classes_of_one_image(base):
    images = np.random.default_rng(0).integers(0, 256, (1000, 16, 16, 3), dtype=np.uint8)
    classifier = FewShotClassifier(base, head="logistic").fit(images, np.arange(1000))
    assert (classifier.predict(images[:20]) == np.arange(20)).mean() > 0.3  # of noise, by a network of 16 features
