"""`FewShotClassifier`: labels, images and settings as people have them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from implanting.classifier.estimator import FewShotClassifier
from implanting.errors import ConfigError, DataError, ImplantingError
from toy_classifier import ASKED, IMAGES, NAMES, NUMBERS, SHADES, TRAINED, fitted
from toys import noise


def test_images_of_any_size_are_seen_at_the_trained_one_unless_another_is_asked_for(base):
    images = [Image.fromarray(noise(side, side + 9, 3).numpy()) for side in (20, 48, 300)]
    classifier = FewShotClassifier(base, implants=False).fit(images, ["a", "b", "b"])
    assert classifier.learned_.size == min(base.preprocessing.image_size)
    as_told = FewShotClassifier(base, implants=False, image_size=40).fit(images, ["a", "b", "b"])
    assert as_told.learned_.size == 40


@pytest.mark.parametrize(
    "labels",
    [
        NAMES,
        NAMES.tolist(),
        NAMES.astype(object),
        NUMBERS,
        (NUMBERS * 7 - 3).tolist(),
        NUMBERS.astype(np.uint8),
        NUMBERS.astype(np.int32),
        [np.int64(number) for number in NUMBERS],
        NUMBERS % 2 == 0,
    ],
    ids=["str", "list", "object", "int64", "negative", "uint8", "int32", "numpy scalars", "bool"],
)
def test_labels_come_back_as_they_were_given(base, labels):
    classifier = fitted(FewShotClassifier(base, implants=False), labels)
    answers = classifier.predict(IMAGES[TRAINED])
    assert answers.dtype == classifier.classes_.dtype == np.asarray(labels).dtype
    assert set(answers.tolist()) == set(np.asarray(labels).tolist())
    assert {type(label) for label in answers.tolist()} == {type(label) for label in np.asarray(labels).tolist()}
    assert classifier.score(IMAGES[TRAINED], labels[TRAINED]) > 0.8


def as_paths(folder: Path) -> list[Path]:
    paths = [folder / f"{number} ñ.png" for number in range(len(IMAGES))]
    for path, image in zip(paths, IMAGES, strict=True):
        Image.fromarray(image).save(path)
    return paths


def as_bytes(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in as_paths(folder)]


@pytest.mark.parametrize(
    "given",
    [
        as_paths,
        as_bytes,
        lambda folder: list(map(str, as_paths(folder))),
        lambda folder: np.array(list(map(str, as_paths(folder)))),
        lambda _: [Image.fromarray(image) for image in IMAGES],
        lambda _: list(IMAGES),
        lambda _: SHADES.images,
    ],
    ids=["paths", "bytes", "strings", "array of strings", "PIL", "list of arrays", "tensor"],
)
def test_images_may_come_in_any_form(base, tmp_path, given):
    images = given(tmp_path)
    classifier = FewShotClassifier(base, implants=False).fit(images[TRAINED], NAMES[TRAINED])
    expected = fitted(FewShotClassifier(base, implants=False)).predict_proba(IMAGES[ASKED])
    assert np.array_equal(classifier.predict_proba(images[ASKED]), expected)


def test_grey_images_of_any_size(base):
    grey = [np.full((20 + number, 50), 30 + 40 * number, np.uint8) for number in range(6)]
    classifier = FewShotClassifier(base, implants=False).fit(grey, [0, 0, 0, 1, 1, 1])
    assert classifier.predict_proba(np.stack([grey[0]] * 2)).shape == (2, 2)
    assert classifier.score(grey, [0, 0, 0, 1, 1, 1]) > 0.7


@pytest.mark.parametrize(
    ("images", "labels", "said"),
    [
        ([], [], "there is no image; a classifier needs images of two classes"),
        (IMAGES[:3], ["oak"] * 3, r"there is one class \('oak'\)"),
        (IMAGES[:3], ["oak", "ash"], r"3 images have labels of shape \[2\]"),
        (IMAGES[:2], [0.5, 1.7], "Unknown label type: continuous"),
        (IMAGES[:2], [None, "oak"], "some labels are strings"),
        (IMAGES[:2], [None, None], "use strings or integers"),
        (IMAGES[:2], [("a", 1), ("b", 2)], "one label per image"),
        ([IMAGES[0], b"not an image"], ["oak", "ash"], "12 bytes"),
        ([IMAGES[0], "gone.jpg"], ["oak", "ash"], "gone.jpg does not exist"),
        ("gone.jpg", ["oak"], "put it in a list"),
        (IMAGES[:2] / 255, ["oak", "ash"], "float64"),
    ],
)
def test_bad_input_is_one_clear_line(base, images, labels, said):
    with pytest.raises(DataError, match=said) as error:
        FewShotClassifier(base).fit(images, labels)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"unknown": "oak"}, "'oak' is one of the classes"),
        ({"refuse": 1.5}, "`refuse` is 1.5"),
        ({"implants": "yes"}, "`implants` is yes"),
        ({"image_size": 0}, "`image_size` is 0"),
        ({"image_size": 4}, "4 x 4 px"),
        ({"support_pooling": "dense"}, "`support_pooling` is dense"),
        ({"query_pooling": "max"}, "`query_pooling` is max"),
        ({"implants": True, "implant_epochs": -1}, "`implant_epochs` is -1"),
        ({"implants": True, "implant_share": 2.0}, "`implant_share` is 2.0"),
    ],
)
def test_bad_settings_are_one_clear_line(base, settings, said):
    classifier = FewShotClassifier(base).set_params(**settings)
    with pytest.raises(ImplantingError, match=said):
        fitted(classifier)
    assert not hasattr(classifier, "classes_")


def test_images_larger_than_a_file_may_say_are_refused_before_fitting(base):
    """Without fitting, which would take minutes if it were not refused."""
    classes = np.array(["a", "b"])
    FewShotClassifier(base, image_size=4096).check_settings(classes)
    with pytest.raises(ConfigError, match="`image_size` is 4097; it must be from 1 to 4096"):
        FewShotClassifier(base, image_size=4097).check_settings(classes)
