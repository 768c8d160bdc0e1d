"""The one way through: everything checked first, then results one by one, with nothing computed twice."""

from dataclasses import replace

import pytest

from implanting.config import ImplantConfig, InferenceConfig, TaskConfig
from implanting.errors import ConfigError, DataError
from implanting.evaluation import Approach, TaskImages, Trial, compare, evaluate, task_images
from implanting.evaluation.comparison import grouped, method_of
from implanting.implants import compute_activations
from implanting.implants.fitting import Fitting
from toys import coloured, toy_base

BASE = toy_base(size=32)
IMAGES = TaskImages(coloured(classes=4, per_class=8, size=32, seed=1), coloured(classes=3, per_class=8, size=32))
SHORT = ImplantConfig(implant_channels=2, implant_epochs=2)
HELD_OUT = replace(SHORT, implant_decision="held-out")
TASKS = TaskConfig(way=3, shot=3, queries=4, tasks=6, seed=5)


def trial(query=None, implants=None, classes="novel", shot=3, support="gap", views=1):
    return Trial(Approach(InferenceConfig(support, query, views), implants, classes), replace(TASKS, shot=shot))


ALL = [
    trial(),
    trial(shot=1),
    trial(views=2),
    trial("gap"),
    trial("dense", SHORT),
    trial("gap", HELD_OUT),
    trial(classes="base"),
    trial("gap", SHORT),
    trial(classes="both"),
    trial(classes="both", shot=1),
]


def alone(one):
    approach, tasks = one.approach, one.tasks
    return evaluate(
        BASE,
        IMAGES.novel,
        way=tasks.way,
        shot=tasks.shot,
        queries=tasks.queries,
        tasks=tasks.tasks,
        seed=tasks.seed,
        classes=approach.classes,
        base_images=IMAGES.base,
        implants=approach.implants or False,
        support_pooling=approach.pooling.support_pooling,
        query_pooling=approach.pooling.query_pooling,
        support_views=approach.pooling.support_views,
    )


def test_results_are_those_of_each_trial_by_itself():
    found = dict(compare(BASE, IMAGES, [*ALL, ALL[0]]))
    assert found.keys() == set(ALL)
    for one, result in found.items():
        expected = alone(one)
        assert (result.method, result.config, result.images) == (expected.method, expected.config, expected.images)
        assert result.per_task.tolist() == expected.per_task.tolist()
        assert result.confusion.tolist() == expected.confusion.tolist()
    assert len({str(result.per_task) for result in found.values()}) > len(ALL) // 2  # they do differ


def test_results_come_one_by_one_in_the_order_of_the_trials_but_for_shared_implants():
    came = [one for one, _ in compare(BASE, IMAGES, ALL)]
    shared = ALL.index(trial("gap", SHORT))
    assert came == [*ALL[:5], ALL[shared], *(one for one in ALL[5:] if one != ALL[shared])]


def test_nothing_slow_is_done_before_results_are_asked_for(monkeypatch):
    monkeypatch.setattr("implanting.evaluation.features.compute_activations", lambda *_, **__: pytest.fail("computed"))
    monkeypatch.setattr("implanting.evaluation.features.embed_together", lambda *_: pytest.fail("computed"))
    compare(BASE, IMAGES, ALL)


def test_implants_are_trained_once_for_all_poolings_at_test(monkeypatch):
    trained = []
    train = Fitting.adapted

    def watched(fitting, supports, generators):
        trained.append(len(supports))
        return train(fitting, supports, generators)

    monkeypatch.setattr(Fitting, "adapted", watched)
    trials = [trial(query, SHORT) for query in ("gap", "gmp", "dense")]
    assert len(list(compare(BASE, IMAGES, trials))) == 3
    assert sum(trained) == TASKS.tasks


def test_a_method_is_made_once_for_all_shots(monkeypatch):
    made = []

    def counted(one, features):
        made.append(one)
        return method_of(one, features)

    monkeypatch.setattr("implanting.evaluation.comparison.method_of", counted)
    fewer = replace(trial(), tasks=replace(TASKS, tasks=2))
    trials = [trial(), trial(shot=1), fewer, trial(classes="base"), trial(classes="base", shot=1)]
    list(compare(BASE, IMAGES, trials))
    assert made == [trials[0], trials[3]]


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (trial("dense", SHORT), trial("gap", SHORT), True),
        (trial("dense", SHORT), trial("dense", SHORT, support="gmp"), True),
        (trial("dense", SHORT), trial("dense", SHORT, shot=5), False),
        (trial("dense", SHORT), trial("dense", SHORT, views=2), False),
        (trial("dense", SHORT), trial("dense", replace(SHORT, adapt_query_pooling="dense")), False),
        (trial("dense", HELD_OUT), trial("gap", HELD_OUT), False),
        (trial("dense"), trial("gap"), False),
    ],
)
def test_trials_that_train_the_same_implants_are_tested_together(first, second, together):
    assert grouped([first, trial(), second]) == (
        [[first, second], [trial()]] if together else [[first], [trial()], [second]]
    )


def test_implants_refuse_a_base_trained_with_flatten_before_anything_is_computed():
    with pytest.raises(ConfigError, match="flatten"):
        compare(toy_base(size=32, pooling="flatten"), IMAGES, [trial(), trial(implants=SHORT)])


def test_flatten_refuses_maps_of_another_size():
    flatten, larger = toy_base(size=32, pooling="flatten"), TaskImages(coloured(per_class=8, size=64))
    with pytest.raises(ConfigError, match=r"64 x 64 px, 4 x 4 locations.*on 2 x 2.*image_size=32"):
        compare(flatten, larger, [trial()])
    compare(BASE, larger, [trial()])


@pytest.mark.parametrize("classes", ["base", "both"])
def test_base_classes_must_be_those_of_the_base(classes):
    with pytest.raises(ConfigError, match="other classes"):
        compare(BASE, TaskImages(IMAGES.novel, IMAGES.novel), [trial(classes=classes)])


def test_too_few_images_are_found_at_once():
    with pytest.raises(DataError, match="5-shot with 4 queries needs 9"):
        compare(BASE, IMAGES, [trial(), trial(shot=5)])


def test_a_cache_of_other_images_is_found_at_once(tmp_path):
    compute_activations(BASE, coloured(size=32), cache=tmp_path / "other")
    with pytest.raises(DataError, match="other"):
        compare(BASE, IMAGES, [trial(implants=SHORT)], cache=tmp_path / "other")


MANY = TaskImages(coloured(classes=4, per_class=60, size=32, seed=1), coloured(classes=3, per_class=60, size=32))


def test_images_that_no_task_uses_do_not_pass_the_network_and_change_nothing(monkeypatch):
    few = [replace(one, tasks=replace(one.tasks, tasks=2)) for one in ALL]
    found = dict(compare(BASE, MANY, few))
    seen = []
    monkeypatch.setattr(
        "implanting.evaluation.features.compute_activations",
        lambda base, images, **how: seen.append(len(images)) or compute_activations(base, images, **how),
    )
    compared = compare(BASE, MANY, few)
    assert not seen  # checked without computing anything
    list(compared)
    used = {int(i) for one in few if one.approach.classes != "base" for i in indices(MANY.tasks_of(one))}
    assert seen == [2 * len(used)]  # in two views
    assert len(used) < 0.5 * len(MANY.novel)
    monkeypatch.setattr(task_images, "FEW", 0.0)  # all images are read
    for one, result in compare(BASE, MANY, few):
        assert (
            result.images
            == found[one].images
            == (MANY.base if one.approach.classes == "base" else MANY.novel).fingerprint
        )
        assert result.per_task.tolist() == pytest.approx(found[one].per_task.tolist(), abs=1e-6)


def indices(tasks):
    return [*tasks.support.flatten(), *tasks.query.flatten()]
