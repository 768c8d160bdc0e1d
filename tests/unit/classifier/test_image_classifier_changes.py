"""`FewShotClassifier`: classes and images that come and go."""

import copy

import numpy as np
import pytest
import torch

from implanting.classifier.estimator import FewShotClassifier
from implanting.errors import ConfigError, ImplantingError, ImplantsKept
from rounding import assert_near
from toy_classifier import ASKED, IMAGES, NAMES, TRAINED, fitted, state
from toys import noise

pytestmark = pytest.mark.filterwarnings("ignore::implanting.errors.ImplantsKept")  # one test is of this warning


def test_adding_a_class_is_as_if_it_had_been_there(base):
    whole = fitted(FewShotClassifier(base, implants=False, keep_supports=True))
    others = NAMES[TRAINED] != "beech"
    part = FewShotClassifier(base, implants=False, keep_supports=True).fit(IMAGES[TRAINED][others], NAMES[:16][others])
    before = part.learned_.prototypes
    assert part.add_class("beech", IMAGES[TRAINED][~others]) is part
    assert part.classes_.tolist() == whole.classes_.tolist()
    assert_near(part.learned_.prototypes, whole.learned_.prototypes)
    assert torch.equal(part.learned_.counts, whole.learned_.counts)
    assert torch.equal(part.learned_.prototypes[[0, 2, 3]], before)
    assert part.learned_.calibration != whole.learned_.calibration  # as it was before: say so by refitting
    part.refit()
    assert_near(part.predict_proba(IMAGES[ASKED]), whole.predict_proba(IMAGES[ASKED]), scale=1)


def test_a_class_that_comes_and_goes_leaves_everything_as_it_was(new):
    classifier = fitted(new(keep_supports=True))
    before = state(classifier)
    strangers = noise(3, 32, 32, 3)
    classifier.add_class("a much longer name", strangers)
    assert set(classifier.predict(strangers)) == {"a much longer name"}
    classifier.remove_class("a much longer name")
    after = state(classifier)
    assert after["classes"][1] == before["classes"][1]
    assert {**after, "classes": None} == {**before, "classes": None}


def test_adding_images_is_fitting_the_union(base):
    whole = fitted(FewShotClassifier(base, implants=False, keep_supports=True))
    part = FewShotClassifier(base, implants=False, keep_supports=True).fit(IMAGES[:9], NAMES[:9])
    part.add_images(IMAGES[9:16], NAMES[9:16])
    assert_near(part.learned_.prototypes, whole.learned_.prototypes)
    assert part.learned_.counts.tolist() == [4, 4, 4, 4]
    assert np.array_equal(part.refit().predict_proba(IMAGES), whole.predict_proba(IMAGES))


def test_removing_a_class_keeps_the_order_of_the_rest(new):
    classifier = fitted(new(keep_supports=True))
    prototypes = classifier.learned_.prototypes
    classifier.remove_class("beech")
    assert classifier.classes_.tolist() == ["ash", "oak", "élm"]
    assert torch.equal(classifier.learned_.prototypes, prototypes[[0, 2, 3]])
    images, labels = classifier.learned_.supports
    assert classifier.classes_[labels.numpy()].tolist() == [name for name in NAMES[TRAINED] if name != "beech"]
    assert np.array_equal(images.numpy(), IMAGES[TRAINED][NAMES[TRAINED] != "beech"])
    assert set(classifier.predict(IMAGES[ASKED])) == {"ash", "oak", "élm"}


def test_changing_classes_says_that_implants_stay(base):
    with_implants = fitted(FewShotClassifier(base, implants=True, implant_epochs=2))
    weights = copy.deepcopy(with_implants.learned_.implants)
    for change in (
        lambda: with_implants.add_class("fir", IMAGES[:1]),
        lambda: with_implants.add_images(IMAGES[:1], ["fir"]),
        lambda: with_implants.remove_class("fir"),
    ):
        with pytest.warns(ImplantsKept, match=r"calibration of probabilities.*refit\(\)"):
            change()
    kept = with_implants.learned_.implants
    pairs = zip(weights.parameters(), kept.parameters(), strict=True)
    assert all(torch.equal(before, after) for before, after in pairs)
    without = fitted(FewShotClassifier(base, implants=False))
    without.add_class("fir", IMAGES[:1])  # a warning would be an error


def test_refitting_trains_anew(new):
    classifier = fitted(new(keep_supports=True))
    before = state(classifier)
    assert state(classifier.refit()) == before
    classifier.add_class("fir", noise(3, 32, 32, 3)).refit()
    labels = np.append(NAMES[TRAINED], ["fir"] * 3)
    fresh = new(keep_supports=True).fit(np.concatenate([IMAGES[TRAINED], noise(3, 32, 32, 3).numpy()]), labels)
    assert np.array_equal(classifier.predict_proba(IMAGES), fresh.predict_proba(IMAGES))
    with pytest.raises(ConfigError, match="`keep_supports`"):
        fitted(new()).refit()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one.add_class("oak", IMAGES[:1]), "'oak' is there already: use add_images"),
        (lambda one: one.add_class("?", IMAGES[:1]), "label for images of no class"),
        (lambda one: one.add_class(7, IMAGES[:1]), "not of the kind of the others"),
        (lambda one: one.add_class("fir", []), "no image to add"),
        (lambda one: one.add_images([], []), "no image to add"),
        (lambda one: one.add_images(IMAGES[:1], ["fir"]), "no class 'fir'; there are 'ash'"),
        (lambda one: one.add_images(IMAGES[:2], ["oak"]), "2 images have labels"),
        (lambda one: one.remove_class("fir"), "no class 'fir'"),
        (lambda one: one.remove_class(3), "no class 3"),
    ],
)
def test_bad_changes_change_nothing(base, change, said):
    classifier = fitted(FewShotClassifier(base, implants=False, unknown="?", keep_supports=True))
    before = state(classifier)
    with pytest.raises(ImplantingError, match=said):
        change(classifier)
    assert state(classifier) == before


def test_two_classes_are_left(base):
    classifier = fitted(FewShotClassifier(base, implants=False))
    classifier.remove_class("oak").remove_class("ash")
    with pytest.raises(ConfigError, match="'beech' cannot be removed: 2 are left"):
        classifier.remove_class("beech")
    assert classifier.classes_.tolist() == ["beech", "élm"]
