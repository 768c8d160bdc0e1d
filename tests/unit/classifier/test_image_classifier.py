"""`FewShotClassifier`: its answers, and what it promises to leave alone."""

import copy
import io
import pickle
from typing import Any

import jaxtyping
import numpy as np
import pytest
from PIL import Image
from sklearn.exceptions import NotFittedError

from implanting.classifier.estimator import FewShotClassifier
from implanting.errors import ConfigError, DataError, ImageError, ImplantingError
from implanting.images import Failure, load, many
from rounding import assert_near
from toy_classifier import ASKED, IMAGES, NAMES, NUMBERS, all_classes, fitted, state
from toys import noise


def test_probabilities_add_up_and_the_largest_is_the_answer(new):
    classifier = fitted(new())
    probabilities = classifier.predict_proba(IMAGES[ASKED])
    assert probabilities.shape == (8, 4)
    assert np.allclose(probabilities.sum(1), 1)
    assert all_classes(classifier) == sorted({*NAMES.tolist()})
    assert classifier.predict(IMAGES[ASKED]).tolist() == classifier.classes_[probabilities.argmax(1)].tolist()
    assert classifier.score(IMAGES[ASKED], NAMES[ASKED]) > 0.8


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
    assert_near(together, np.concatenate([alone] * 3), scale=1)


@pytest.mark.filterwarnings("ignore::implanting.errors.ImplantsKept")  # as a class is added: not what is tested
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
    assert classifier.learned_.implants is None  # auto
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
    assert fitted(FewShotClassifier(base, implant_epochs=1)).learned_.implants is not None
    by_search = FewShotClassifier(base, implant_epochs=1).set_params(implants=np.bool_(True))  # of an array of settings
    assert fitted(by_search).learned_.implants is not None


def test_the_share_of_implants_can_be_set(base, tmp_path):
    def saved(share: float) -> FewShotClassifier:
        file = tmp_path / f"{share}.safetensors"
        fitted(FewShotClassifier(base, implants=True, implant_epochs=20, implant_share=share)).save(file)
        return FewShotClassifier.load(file, base=base)

    paper, scaled = saved(1.0), saved(0.01)
    assert paper.implant_share == 1.0
    assert paper.learned_.implants.weight is None  # as trained
    assert 0 < scaled.learned_.implants.weight.item() < 1
    assert not np.array_equal(paper.predict_proba(IMAGES[ASKED]), scaled.predict_proba(IMAGES[ASKED]))


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
    with pytest.raises(ConfigError, match="`top` is 3; it must be left out if `label` names the one class"):
        classifier.explain(image, "élm", top=3)


def test_a_kind_of_map_that_there_is_none_of_is_refused(new, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for a user, whose types nothing checks
    with pytest.raises(ConfigError, match="`kind` is Similarity; it must be one of evidence, similarity, softmax"):
        fitted(new()).explain(IMAGES[0], kind="Similarity")


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


def test_answers_come_before_the_last_image_is_decoded(base, monkeypatch):
    classifier, decoded = fitted(FewShotClassifier(base, implants=False)), []

    def note(source, size):
        decoded.append(source)
        return load(source, size)

    monkeypatch.setattr(many, "load", note)
    images = [*IMAGES, b"no image"] * 12
    answers = classifier.answer_each(images)
    first = next(answers)
    assert len(decoded) < len(images)
    rest = list(answers)
    assert [isinstance(each, Failure) for each in [first, *rest]] == [isinstance(image, bytes) for image in images]
    assert [each.index for each in rest if isinstance(each, Failure)] == [25 * turn + 24 for turn in range(12)]


def test_images_that_were_fitted_to_are_recognised(base, tmp_path):
    classifier = fitted(FewShotClassifier(base, implants=False))
    seen = [number < 16 for number in range(24)]
    assert [answer.seen for answer in classifier.answers(IMAGES)[0]] == seen
    classifier.save(tmp_path / "trees.safetensors")
    again = FewShotClassifier.load(tmp_path / "trees.safetensors")
    assert [answer.seen for answer in again.answers(IMAGES)[0]] == seen
    again.add_images(IMAGES[16:18], NAMES[16:18])
    assert [answer.seen for answer in again.answers(IMAGES[14:20])[0]] == [True] * 4 + [False] * 2
    changed = IMAGES[:1].copy()
    changed[0, 0, 0, 0] ^= 1
    assert not classifier.answers(changed)[0][0].seen
