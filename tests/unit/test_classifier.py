"""`FewShotClassifier`: labels and images as people have them, and what it promises to leave alone."""

import copy
import dataclasses
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.exceptions import NotFittedError

from implanting.base import BaseNetwork
from implanting.calibration import Calibration
from implanting.classifier import suited_size
from implanting.errors import CannotRefuse, ConfigError, DataError, ImageError, ImplantingError, ImplantsKept
from implanting.estimator import FewShotClassifier
from implanting.labels import Labels
from toys import coloured, noise

SHADES = coloured(classes=4, per_class=6, size=32, seed=1, prefix="shade")
IMAGES, NUMBERS = SHADES.images.numpy(), SHADES.labels.numpy()
NAMES = np.array(["oak", "ash", "beech", "élm"])[NUMBERS]
TRAINED, ASKED = slice(0, 16), slice(16, 24)

pytestmark = pytest.mark.filterwarnings("ignore::implanting.errors.ImplantsKept")  # one test is of this warning


@pytest.fixture(params=[False, True], ids=["prototypes", "implants"])
def new(request: pytest.FixtureRequest, base: BaseNetwork) -> Callable[..., FewShotClassifier]:
    """A classifier that is not fitted yet, with implants and without."""

    def make(**settings: Any) -> FewShotClassifier:
        return FewShotClassifier(base, **{"implants": request.param, "implant_epochs": 3, **settings})

    return make


def fitted(classifier: FewShotClassifier, labels: Labels = NAMES) -> FewShotClassifier:
    return classifier.fit(IMAGES[TRAINED], labels[TRAINED])


def state(classifier: FewShotClassifier) -> dict[str, Any]:
    """All that a classifier consists of, in a form that can be compared."""
    learned = classifier.learned_
    tensors = [learned.prototypes, learned.counts, *classifier.base_.tensors.values()]
    for implant in learned.fitted.implants.layers if learned.fitted.implants else []:
        tensors += [*implant.parameters(), *implant.statistics]
    tensors += classifier.supports_ or ()
    plain = {name: value for name, value in classifier.get_params().items() if name != "base"}
    return {
        "settings": plain,
        "names": sorted(vars(classifier)),
        "classes": (classifier.classes_.dtype, classifier.classes_.tolist()),
        "calibration": learned.calibration,
        "tensors": [(tensor.shape, tensor.numpy().tobytes()) for tensor in tensors],
        "global randomness": (torch.get_rng_state().numpy().tobytes(), np.random.get_state()[1].tobytes()),
    }


def all_classes(classifier: FewShotClassifier) -> list[Any]:
    return classifier.classes_.tolist()


@pytest.mark.parametrize(("sides", "size"), [((32, 32, 32), 32), ((47, 47, 47), 32), ((20, 48, 300), 48)])
def test_photos_larger_than_a_base_was_trained_for_run_at_the_size_that_suits_them(base, sides, size):
    images = [Image.fromarray(noise(side, side + 9, 3).numpy()) for side in sides]
    assert suited_size(base, images) == size
    classifier = FewShotClassifier(base, implants=False).fit(images, ["a", "b", "b"])
    assert classifier.size_ == size
    as_told = FewShotClassifier(base, implants=False, image_size=40).fit(images, ["a", "b", "b"])
    assert as_told.size_ == 40


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


def test_probabilities_add_up_and_the_largest_is_the_answer(new):
    classifier = fitted(new())
    probabilities = classifier.predict_proba(IMAGES[ASKED])
    assert probabilities.shape == (8, 4)
    assert np.allclose(probabilities.sum(1), 1)
    assert all_classes(classifier) == sorted({*NAMES.tolist()})
    assert classifier.predict(IMAGES[ASKED]).tolist() == classifier.classes_[probabilities.argmax(1)].tolist()
    assert classifier.score(IMAGES[ASKED], NAMES[ASKED]) == 1


def test_predicting_changes_nothing(new):
    classifier = fitted(new(keep_supports=True, unknown="none", refuse=0.2))
    before, first = state(classifier), classifier.predict_proba(IMAGES)
    classifier.predict(IMAGES)
    classifier.open_set_score(IMAGES)
    classifier.answers(list(IMAGES), top=2)
    classifier.explain(IMAGES[0], finer=2)
    classifier.score(IMAGES, NAMES)
    assert state(classifier) == before
    assert np.array_equal(classifier.predict_proba(IMAGES), first)


def test_images_are_answered_alike_one_by_one_and_together(new):
    classifier = fitted(new())
    together = classifier.predict_proba(np.concatenate([IMAGES] * 3))
    alone = np.concatenate([classifier.predict_proba(IMAGES[number : number + 1]) for number in range(24)])
    assert np.allclose(together, np.concatenate([alone] * 3), atol=1e-5)


def test_fitting_twice_is_a_fresh_fit(new):
    classifier = fitted(new(keep_supports=True), NUMBERS)
    classifier.add_class(9, IMAGES[:2])
    again = fitted(classifier)
    assert state(again) == state(fitted(new(keep_supports=True)))


def test_a_failed_fit_leaves_the_earlier_one(new):
    classifier = fitted(new())
    before = state(classifier)
    with pytest.raises(ImplantingError):
        classifier.fit([IMAGES[0], b"no image"], ["a", "b"])
    with pytest.raises(ImplantingError):
        classifier.add_class("fir", [IMAGES[0], b"no image"])
    with pytest.raises(ImplantingError):
        classifier.add_images([b"no image"], ["oak"])
    assert state(classifier) == before


def test_the_random_state_decides(base):
    def answers(seed: Any) -> np.ndarray:
        classifier = FewShotClassifier(base, implants=True, implant_epochs=2, random_state=seed)
        return fitted(classifier).predict_proba(IMAGES[ASKED])

    assert np.array_equal(answers(3), answers(3))
    assert np.array_equal(answers(np.random.RandomState(3)), answers(3))
    assert not np.array_equal(answers(3), answers(4))


def test_one_image_a_class(base):
    classifier = FewShotClassifier(base).fit(IMAGES[:4], NAMES[:4])
    assert classifier.learned_.fitted.implants is None  # auto
    assert classifier.score(IMAGES[4:], NAMES[4:]) > 0.8
    with pytest.raises(DataError, match="implants need a class with two supports or more"):
        FewShotClassifier(base, implants=True).fit(IMAGES[:4], NAMES[:4])


def test_many_classes_of_one_image_are_no_reason_to_warn(base):
    many = noise(40, 32, 32, 3)
    classifier = FewShotClassifier(base).fit(many, np.arange(40))
    assert classifier.predict_proba(many).shape == (40, 40)


def test_uneven_classes(new):
    chosen = [0, 4, 8, 12, 1, 5, 2, 3]
    classifier = new().fit(IMAGES[chosen], NAMES[chosen])
    assert classifier.learned_.counts.tolist() == [2, 1, 4, 1]  # in the order of classes_
    assert classifier.score(IMAGES[ASKED], NAMES[ASKED]) > 0.7


def test_auto_trains_implants_from_two_images_on(base):
    assert fitted(FewShotClassifier(base, implant_epochs=1)).learned_.fitted.implants is not None
    by_search = FewShotClassifier(base, implant_epochs=1).set_params(implants=np.bool_(True))  # of an array of settings
    assert fitted(by_search).learned_.fitted.implants is not None


def test_adding_a_class_is_as_if_it_had_been_there(base):
    whole = fitted(FewShotClassifier(base, implants=False, keep_supports=True))
    others = NAMES[TRAINED] != "beech"
    part = FewShotClassifier(base, implants=False, keep_supports=True).fit(IMAGES[TRAINED][others], NAMES[:16][others])
    before = part.learned_.prototypes
    assert part.add_class("beech", IMAGES[TRAINED][~others]) is part
    assert part.classes_.tolist() == whole.classes_.tolist()
    torch.testing.assert_close(part.learned_.prototypes, whole.learned_.prototypes)
    assert torch.equal(part.learned_.counts, whole.learned_.counts)
    assert torch.equal(part.learned_.prototypes[[0, 2, 3]], before)
    assert part.learned_.calibration != whole.learned_.calibration  # as it was before: say so by refitting
    part.refit()
    assert np.allclose(part.predict_proba(IMAGES[ASKED]), whole.predict_proba(IMAGES[ASKED]), atol=1e-6)


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
    torch.testing.assert_close(part.learned_.prototypes, whole.learned_.prototypes)
    assert part.learned_.counts.tolist() == [4, 4, 4, 4]
    assert np.array_equal(part.refit().predict_proba(IMAGES), whole.predict_proba(IMAGES))


def test_removing_a_class_keeps_the_order_of_the_rest(new):
    classifier = fitted(new(keep_supports=True))
    prototypes = classifier.learned_.prototypes
    classifier.remove_class("beech")
    assert classifier.classes_.tolist() == ["ash", "oak", "élm"]
    assert torch.equal(classifier.learned_.prototypes, prototypes[[0, 2, 3]])
    images, labels = classifier.supports_
    assert classifier.classes_[labels.numpy()].tolist() == [name for name in NAMES[TRAINED] if name != "beech"]
    assert np.array_equal(images.numpy(), IMAGES[TRAINED][NAMES[TRAINED] != "beech"])
    assert set(classifier.predict(IMAGES[ASKED])) == {"ash", "oak", "élm"}


def test_changing_classes_says_that_implants_stay(base):
    with_implants = fitted(FewShotClassifier(base, implants=True, implant_epochs=2))
    weights = copy.deepcopy(with_implants.learned_.fitted.implants)
    for change in (
        lambda: with_implants.add_class("fir", IMAGES[:1]),
        lambda: with_implants.add_images(IMAGES[:1], ["fir"]),
        lambda: with_implants.remove_class("fir"),
    ):
        with pytest.warns(ImplantsKept, match=r"refit\(\)"):
            change()
    kept = with_implants.learned_.fitted.implants
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
    with pytest.raises(ConfigError, match="keep_supports=True"):
        fitted(new()).refit()


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
    classifier = fitted(FewShotClassifier(base, implants=False, unknown=unknown, refuse=0.9), labels)
    images = np.concatenate([IMAGES[TRAINED], noise(2, 32, 32, 3).numpy()])
    answers = classifier.predict(images).tolist()
    assert answers[-1] == unknown
    named = [answer for answer in answers if answer != unknown]
    assert {type(answer) for answer in named} == {type(labels.tolist()[0])}
    assert classifier.score(images[:16], labels[TRAINED]) == np.mean([answer != unknown for answer in answers[:16]])


def test_it_says_where_images_are_too_few_to_refuse_any(base):
    classifier = FewShotClassifier(base, unknown="none").fit(IMAGES[:4], NAMES[:4])
    with pytest.warns(CannotRefuse, match="no image is answered 'none': 0 images"):
        assert "none" not in classifier.predict(noise(5, 32, 32, 3))


def test_scores_stored_in_the_base_tell_where_supports_cannot(base):
    stored = Calibration(1.0, tuple(np.linspace(-1, -0.9, 100).tolist()), "base").document()
    described = dataclasses.replace(base.description, training={**base.training, "calibration": stored})
    taught = BaseNetwork.from_training(base.network, base.classifier, described)
    classifier = FewShotClassifier(taught, unknown="none").fit(IMAGES[:4], NAMES[:4])
    assert classifier.predict(noise(5, 32, 32, 3)).tolist() == ["none"] * 5


def test_answers_tell_all_at_once(new):
    classifier = fitted(new(unknown="?", refuse=0.3))
    answers, failures = classifier.answers([*IMAGES[ASKED], b"no image"], top=3, skip_bad=True)
    assert [answer.label for answer in answers] == classifier.predict(IMAGES[ASKED]).tolist()
    probabilities = classifier.predict_proba(IMAGES[ASKED])
    for answer, row in zip(answers, probabilities, strict=True):
        best = np.argsort(-row)[:3]
        assert answer.ranking == tuple(zip(classifier.classes_[best].tolist(), row[best].tolist(), strict=True))
    assert [answer.open_set_score for answer in answers] == classifier.open_set_score(IMAGES[ASKED]).tolist()
    assert [failure.index for failure in failures] == [8]
    assert classifier.answers([b"no image"], skip_bad=True)[0] == []
    with pytest.raises(ImageError, match="8 bytes"):
        classifier.answers([*IMAGES, b"no image"])


def test_no_image_has_no_answer(new):
    classifier = fitted(new())
    assert classifier.predict([]).shape == (0,)
    assert classifier.predict_proba([]).shape == (0, 4)


def photo(size: int) -> bytes:
    """A JPEG with broad structure, large enough to be decoded at a fraction of its size."""
    file = io.BytesIO()
    Image.fromarray(noise(6, 8, 3).numpy()).resize((size, size * 3 // 4)).save(file, "JPEG")
    return file.getvalue()


def test_explaining(new):
    classifier, image = fitted(new()), photo(1024)
    best = classifier.explain(image)
    assert best.classes == (classifier.predict([image])[0],)
    assert best.probabilities == classifier.predict_proba([image]).max()  # also of a photo much larger than the network
    every = classifier.explain(image, top=9)
    assert sorted(every.classes) == all_classes(classifier)
    assert every.probabilities.tolist() == sorted(classifier.predict_proba([image])[0].tolist(), reverse=True)
    chosen = classifier.explain(image, "élm", kind="softmax", finer=2)
    assert chosen.classes == ("élm",)
    assert chosen.map.shape == (1, *classifier.base_.map_size(64, 64))
    with pytest.raises(ConfigError, match="no class 'fir'"):
        classifier.explain(image, "fir")
    with pytest.raises(ConfigError, match="finer"):
        classifier.explain(image, finer=0)


@pytest.mark.parametrize(
    ("images", "labels", "said"),
    [
        ([], [], "there is no image; a classifier needs images of two classes"),
        (IMAGES[:3], ["oak"] * 3, r"there is one class \('oak'\)"),
        (IMAGES[:3], ["oak", "ash"], r"3 images have labels of shape \[2\]"),
        (IMAGES[:2], [0.5, 1.7], "Unknown label type: continuous"),
        (IMAGES[:2], [None, "oak"], "some labels are strings"),
        (IMAGES[:2], [None, None], "needed are strings or integers"),
        (IMAGES[:2], [("a", 1), ("b", 2)], "one label an image"),
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
        ({"refuse": 1.5}, "refuse is 1.5"),
        ({"implants": "yes"}, "implants is yes"),
        ({"image_size": 0}, "image-size is 0"),
        ({"image_size": 4}, "4 x 4 px"),
        ({"support_pooling": "dense"}, "support-pooling is dense"),
        ({"query_pooling": "max"}, "query-pooling is max"),
        ({"implants": True, "implant_epochs": 0}, "implant-epochs is 0"),
    ],
)
def test_bad_settings_are_one_clear_line(base, settings, said):
    classifier = FewShotClassifier(base).set_params(**settings)
    with pytest.raises(ImplantingError, match=said):
        fitted(classifier)
    assert not hasattr(classifier, "classes_")


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


@pytest.mark.parametrize("ask", ["predict", "predict_proba", "open_set_score", "explain", "answers", "remove_class"])
def test_what_was_not_fitted_says_so(base, ask):
    with pytest.raises(NotFittedError):
        getattr(FewShotClassifier(base), ask)("oak" if ask == "remove_class" else IMAGES[0])


def test_a_base_that_is_missing_is_said_to_be():
    with pytest.raises(ImplantingError, match=r"gone\.safetensors"):
        fitted(FewShotClassifier("gone.safetensors"))


def test_a_pickle_and_a_copy_answer_alike(new):
    classifier = fitted(new(keep_supports=True))
    for again in (pickle.loads(pickle.dumps(classifier)), copy.deepcopy(classifier)):
        assert state(again) == state(classifier)
        assert np.array_equal(again.predict_proba(IMAGES), classifier.predict_proba(IMAGES))
    assert copy.deepcopy(classifier).base_ is classifier.base_  # frozen, so shared
