import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from implanting.base import BaseNetwork, load_base
from implanting.classifier import ImageClassifier
from implanting.images import load
from implanting.serve.learner import Learner
from implanting.serve.learning import fit, read, side_of, trained_in_place_of
from implanting.serve.pictures import accept
from implanting.serve.problems import Conflict
from implanting.serve.store import Store
from service import COLOURS, photo

NAMES = {7: "red", 3: "green", 5: "blue"}


def photos_and_labels(count: int = 4) -> tuple[list[bytes], list[int]]:
    labels = [number for number in NAMES for _ in range(count)]
    return [photo(COLOURS[NAMES[label]], seed) for seed, label in enumerate(labels)], labels


def test_fitting_to_readings_is_fitting_to_the_photos(base: BaseNetwork) -> None:
    """The slow way is the classifier itself, which reads every photo again."""
    photos, labels = photos_and_labels()
    pixels = np.stack([load(content, side_of(base)) for content in photos])
    readings = dict(enumerate(read(base, pixels)))
    fitted = fit(base, 1, readings, dict(enumerate(labels)), NAMES)
    slow = ImageClassifier(base, head="logistic").fit(photos, [NAMES[label] for label in labels])
    asked = [photo(colour, 100 + seed) for seed, colour in enumerate(COLOURS.values())]
    given, _ = fitted.ask(read(base, np.stack([load(one, side_of(base)) for one in asked])))
    np.testing.assert_allclose(given, slow.predict_proba(asked), atol=1e-3)  # readings are kept in half precision
    assert [NAMES[number] for number in fitted.classes] == slow.classes_.tolist()


def taught(store: Store, learner: Learner, count: int) -> tuple[int, list[bytes], list[str]]:
    """A project of two colours with `count` photos each, its photos and their labels."""
    project, contents, labels = store.add_project("colours"), [], []
    for name in ("green", "red"):
        photos = [photo(COLOURS[name], seed) for seed in range(count)]
        pictures = [accept(content, "a", learner.side) for content in photos]
        added = store.add_photos(project, store.add_class(project, name), pictures)
        learner.changed(project, {one: picture.pixels for (one, _), picture in zip(added, pictures, strict=True)})
        contents += photos
        labels += [name] * count
    return project, contents, labels


@pytest.mark.parametrize(
    ("network", "count"), [("efficientnet-lite0", 1), ("efficientnet-lite0", 3), ("toy", 1), ("toy", 4)]
)
def test_the_service_learns_what_the_library_learns(
    tmp_path: Path, base: BaseNetwork, network: str, count: int
) -> None:
    """Mirrored views of one photo, a head, prototypes, and implants: whatever is the default for the base."""
    network_base = base if network == "toy" else load_base(network)
    store = Store(tmp_path)
    learner = Learner(store, network_base)
    project, contents, labels = taught(store, learner, count)
    fitted = learner.fitted(project, wait=100.0, trained=True)
    by_library = ImageClassifier(network_base, unknown="none of these").fit(contents, labels)
    assert fitted.final
    assert (fitted.classifier.learned_.implants is not None) == (network == "toy" and count == 4)
    assert (fitted.classifier.learned_.head is None) == (by_library.learned_.head is None)
    assert fitted.classifier.learned_.support_views == by_library.learned_.support_views
    assert (by_library.learned_.support_views > 1) == (count == 1 and network != "toy")
    asked = [*contents, *(photo(colour, 100 + seed) for seed, colour in enumerate(COLOURS.values()))]
    given, none = fitted.ask(learner.ask([load(one, learner.side) for one in asked]))
    np.testing.assert_allclose(given, by_library.predict_proba(asked), atol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one photo per class is too few to say "none of these"
        answers = by_library.predict(asked)
    assert np.where(none, "none of these", by_library.classes_[given.argmax(1)]).tolist() == answers.tolist()
    learner.close()
    store.close()


def test_other_views_are_read_where_photos_get_their_labels_later(tmp_path: Path) -> None:
    store = Store(tmp_path)
    learner = Learner(store, "efficientnet-lite0")
    project = store.add_project("colours")
    classes = {name: store.add_class(project, name) for name in ("green", "red")}
    pictures = [accept(photo(COLOURS[name]), name, learner.side) for name in classes]
    photos = [number for number, _ in store.add_photos(project, None, pictures)]
    learner.changed(project, dict(zip(photos, (picture.pixels for picture in pictures), strict=True)))
    for number, label in zip(photos, classes.values(), strict=True):
        store.move_photos(project, [number], label)
        learner.changed(project)
    assert learner.fitted(project, wait=100.0).classifier.learned_.support_views == 2
    learner.close()
    store.close()


def test_a_class_of_one_photo_has_no_held_out_answer(base: BaseNetwork) -> None:
    photos, labels = photos_and_labels(count=2)
    pixels = np.stack([load(content, side_of(base)) for content in photos[:3]])
    fitted = fit(base, 1, dict(enumerate(read(base, pixels))), dict(enumerate(labels[:3])), NAMES)
    assert np.isfinite(fitted.held_out[:2]).all()
    assert np.isnan(fitted.held_out[2]).all()
    np.testing.assert_array_equal(fitted.left_out(0), fitted.held_out[0])
    assert fitted.left_out(2) is None
    assert fitted.left_out(99) is None


def test_learning_follows_changes_and_readings_outlive_the_process(tmp_path: Path, base: BaseNetwork) -> None:
    store = Store(tmp_path)
    learner = Learner(store, base)
    project = store.add_project("colours")
    classes = {name: store.add_class(project, name) for name in COLOURS}
    with pytest.raises(Conflict, match="no photo with a class"):
        learner.fitted(project)
    for seed, (name, number) in enumerate(classes.items()):
        pictures = [accept(photo(COLOURS[name], 10 * seed + one), "a", learner.side) for one in range(3)]
        added = store.add_photos(project, number, pictures)
        learner.changed(project, {one: picture.pixels for (one, _), picture in zip(added, pictures, strict=True)})
    fitted = learner.fitted(project)
    assert fitted.revision == store.project(project)["revision"]
    assert len(fitted.photos) == 9
    store.remove_class(project, classes["blue"])
    learner.changed(project)
    assert len(learner.fitted(project).classes) == 2
    learner.close()
    store.close()

    again = Store(tmp_path)
    second = Learner(again, base)
    again.undo(project)
    assert second.progress(project)[0] == 9  # read before, and not again
    np.testing.assert_allclose(second.fitted(project).held_out, fitted.held_out, atol=1e-3)  # half precision
    second.close()
    again.close()


def test_unlabelled_photos_teach_nothing_and_fit_nothing(tmp_path: Path, base: BaseNetwork) -> None:
    store = Store(tmp_path)
    learner = Learner(store, base)
    project, *_ = taught(store, learner, 2)
    before = learner.fitted(project, wait=100.0, trained=True)
    picture = accept(photo(COLOURS["blue"]), "a", learner.side)
    [(number, _)] = store.add_photos(project, None, [picture])
    learner.changed(project, {number: picture.pixels})
    after = learner.fitted(project, wait=100.0)
    assert after.classifier is before.classifier
    assert after.key == before.key
    assert after.revision == store.project(project)["revision"] > before.revision
    store.move_photos(project, [number], after.classes[0])
    learner.changed(project)
    assert learner.fitted(project, wait=100.0).classifier is not before.classifier
    learner.close()
    store.close()


def test_implants_have_another_key_than_the_head_that_they_replace(base: BaseNetwork) -> None:
    """A browser keeps heat maps by the key of the classifier, and both are of one revision."""
    photos = [photo(COLOURS[name], seed) for name in ("green", "red") for seed in range(4)]
    readings = dict(enumerate(read(base, np.stack([load(one, side_of(base)) for one in photos]))))
    head = fit(base, 1, readings, {number: number // 4 for number in range(8)}, {0: "green", 1: "red"})
    trained = trained_in_place_of(head, readings)
    assert not head.final
    assert trained.revision == head.revision
    assert len({head.key, trained.key, fit(base, 1, readings, {0: 0, 4: 1}, {0: "green", 1: "red"}).key}) == 3


def test_a_photo_whose_file_is_gone_does_not_stop_the_others(tmp_path: Path, base: BaseNetwork) -> None:
    store = Store(tmp_path)
    project = store.add_project("colours")
    for name in ("red", "green"):
        pictures = [accept(photo(COLOURS[name], seed), "a", side_of(base)) for seed in range(2)]
        store.add_photos(project, store.add_class(project, name), pictures)
    store.file(store.photo(project, 1)).unlink()
    learner = Learner(store, base)
    assert learner.fitted(project).photos == (2, 3, 4)
    began = time.monotonic()
    learner.fitted(project)
    assert time.monotonic() - began < 5  # nothing is waited for
    learner.close()
    store.close()
