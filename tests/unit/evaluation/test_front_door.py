import dataclasses

import numpy as np
import pytest
import torch

from implanting.config import ImplantConfig, InferenceConfig, TaskConfig
from implanting.dense_classification import PrototypeClassifier
from implanting.errors import ConfigError
from implanting.evaluation import evaluate, evaluate_poolings
from implanting.fewshot import (
    PrototypeMethod,
    base_class_method,
    draw_queries,
    draw_tasks,
    evaluate_tasks,
    joint_method,
)
from implanting.implants import compute_activations, implant_method
from toys import coloured, seeded, toy_base


def spread_features(images):
    return images.images.float().mean((1, 2))[:, None, :] + torch.randn(32, 1, 3, generator=seeded()) * 30


def test_accuracy_and_confusion_are_counted_from_the_answers():
    images = coloured(classes=4, per_class=8)
    config = TaskConfig(way=3, shot=2, queries=4, tasks=20)
    tasks = draw_tasks(images, config)
    method = PrototypeMethod(spread_features(images), PrototypeClassifier("gap", "gap", 1.0), tasks_at_once=7)
    result = evaluate_tasks(method, tasks, config, classes=4)
    confusion = np.zeros((4, 4), dtype=int)
    for number, (truth, given) in enumerate(zip(*(part.tolist() for part in method(tasks)), strict=True)):
        assert truth == [[label] * 4 for label in tasks.classes[number].tolist()]
        pairs = [
            pair
            for true_row, given_row in zip(truth, given, strict=True)
            for pair in zip(true_row, given_row, strict=True)
        ]
        assert result.per_task[number] == pytest.approx(sum(true == answer for true, answer in pairs) / 12)
        for true, answer in pairs:
            confusion[true, answer] += 1
    assert result.confusion.tolist() == confusion.tolist()
    assert result.per_class.tolist() == pytest.approx([confusion[c, c] / confusion[c].sum() for c in range(4)])
    assert len(set(result.per_task.tolist())) > 1


def test_evaluate_puts_the_parts_together():
    base, images = toy_base(size=16), coloured(classes=4, per_class=8)
    result = evaluate(base, images, way=3, shot=2, queries=4, tasks=20, seed=5, query_pooling="gmp")
    config = TaskConfig(3, 2, 4, 20, 5)
    method = PrototypeMethod(base.embed(images.images), PrototypeClassifier("gap", "gmp", base.tau))
    assert result.config == config
    assert result.method == "prototypes (gap/gmp)"
    assert result.per_task.tolist() == evaluate_tasks(method, draw_tasks(images, config), config, 4).per_task.tolist()
    assert result.mean > 0.4  # colours are easy to tell apart, even for random weights


def test_implants_are_used_from_two_shots_on():
    base, images = toy_base(size=32), coloured(classes=3, per_class=8, size=32)
    shape = {"way": 3, "queries": 4, "tasks": 4, "implants": ImplantConfig(implant_channels=2, implant_epochs=3)}
    assert evaluate(base, images, shot=2, **shape).method == "implants (gap/dense)"
    assert evaluate(base, images, shot=1, **shape).method == "prototypes (gap/dense)"


def test_the_answers_with_implants_do_not_depend_on_the_chunks():
    base, images = toy_base(size=32), coloured(classes=4, per_class=12, size=32)
    config = TaskConfig(way=3, shot=3, queries=5, tasks=6)
    tasks = draw_tasks(images, config)
    activations = compute_activations(base, images)
    settings = ImplantConfig(implant_channels=2, implant_epochs=10)
    whole = implant_method(base, activations, InferenceConfig(), settings, seed=0)
    parts = dataclasses.replace(whole, tasks_at_once=2)
    assert (
        evaluate_tasks(whole, tasks, config, 4).per_task.tolist()
        == evaluate_tasks(parts, tasks, config, 4).per_task.tolist()
    )
    other_seed = implant_method(base, activations, InferenceConfig(), settings, seed=1)
    assert not torch.equal(whole(tasks)[1], other_seed(tasks)[1])


@pytest.mark.parametrize(("queries", "chunks"), [(5, [4, 4, 2]), (97, [2, 2, 2, 2, 2])])
def test_tasks_of_more_images_go_through_fewer_at_once(queries, chunks):
    images = coloured(classes=4, per_class=100)
    config = TaskConfig(way=4, shot=3, queries=queries, tasks=10)
    method = PrototypeMethod(images.images.float().mean((1, 2))[:, None], PrototypeClassifier("gap", "gap", 1.0))
    seen = []

    class Watched:
        tasks_at_once = 4

        def __call__(self, tasks):
            seen.append(len(tasks))
            return method(tasks)

    tasks = draw_tasks(images, config)
    result = evaluate_tasks(Watched(), tasks, config, classes=4)
    assert seen == chunks
    assert result.per_task.tolist() == evaluate_tasks(method, tasks, config, classes=4).per_task.tolist()


def test_implants_trained_once_answer_as_if_trained_for_each_way_to_test():
    base, images = toy_base(size=32), coloured(classes=4, per_class=12, size=32)
    config = TaskConfig(way=3, shot=3, queries=5, tasks=6)
    tasks, activations = draw_tasks(images, config), compute_activations(base, images)
    settings = ImplantConfig(implant_channels=2, implant_epochs=10)
    tests = [InferenceConfig("gap", "gmp"), InferenceConfig("gap", "dense"), InferenceConfig("gmp", "gap")]
    methods = [implant_method(base, activations, test, settings, seed=0) for test in tests]
    alone = [evaluate_tasks(method, tasks, config, 4) for method in methods]
    together = evaluate_poolings(methods, tasks, config, 4)
    assert [one.method for one in together] == ["implants (gap/gmp)", "implants (gap/dense)", "implants (gmp/gap)"]
    for one, other in zip(alone, together, strict=True):
        assert one.method == other.method
        assert one.per_task.tolist() == other.per_task.tolist()
        assert one.confusion.tolist() == other.confusion.tolist()


def test_implants_at_one_shot_are_trained_on_views():
    base, images = toy_base(size=32), coloured(classes=3, per_class=8, size=32)
    shape = {"way": 3, "shot": 1, "queries": 4, "tasks": 4}
    settings = ImplantConfig(implant_channels=2, implant_epochs=3, adapt_views=2)
    result = evaluate(base, images, **shape, implants=settings, support_views=2)
    assert result.method == "implants (gap/dense, 2 views)"
    apart = evaluate(base, images, **shape, implants=settings, support_views=3)
    assert apart.method == "implants (gap/dense, trained on 2 views, 3 averaged)"
    assert (result.config, result.images) == (apart.config, apart.images)  # the same tasks of the same images
    assert evaluate(base, images, **shape, support_views=2).method == "prototypes (gap/dense, 2 views)"


def test_tasks_decide_where_they_have_an_image_to_hold_out():
    base, images = toy_base(size=32), coloured(classes=3, per_class=8, size=32)
    settings = ImplantConfig(implant_channels=2, implant_epochs=2, implant_decision="held-out")
    shape = {"way": 3, "queries": 4, "tasks": 2}
    decided = evaluate(base, images, shot=3, **shape, implants=settings)
    assert decided.method == "implants where they help (gap/dense)"
    viewed = evaluate(base, images, shot=1, **shape, implants=dataclasses.replace(settings, adapt_views=2))
    assert viewed.method == "implants (gap/dense, trained on 2 views, 1 averaged)"


KNOWN, NOVEL = coloured(classes=3, per_class=8, size=32), coloured(classes=4, per_class=8, size=32, seed=1)
SHAPE = {"way": 3, "shot": 2, "queries": 6, "tasks": 20, "seed": 5}


@pytest.mark.parametrize("novel", [None, NOVEL])
def test_evaluate_base_classes(novel):
    base, config = toy_base(size=32), TaskConfig(3, 2, 6, 20, 5)
    result = evaluate(base, novel, classes="base", base_images=KNOWN, **SHAPE, query_pooling="gap")
    method = base_class_method(base, base.embed(KNOWN.images), InferenceConfig("gap", "gap"))
    expected = evaluate_tasks(method, draw_queries(KNOWN, config), config, 3)
    assert (result.method, result.config) == ("class weights (gap)", config)
    assert result.per_task.tolist() == expected.per_task.tolist()
    assert result.confusion.tolist() == expected.confusion.tolist()


def test_evaluate_base_and_novel_classes_together():
    base, config = toy_base(size=32), TaskConfig(3, 2, 6, 20, 5)
    result = evaluate(base, NOVEL, classes="both", base_images=KNOWN, **SHAPE)
    phi, base_phi = base.embed(NOVEL.images), base.embed(KNOWN.images)
    method = joint_method(base, phi, base_phi, draw_queries(KNOWN, config), InferenceConfig())
    expected = evaluate_tasks(method, draw_tasks(NOVEL, config), config, 7)
    assert result.per_task.tolist() == expected.per_task.tolist()
    assert result.confusion.shape == (7, 7)
    assert result.confusion[:3].sum() == result.confusion[3:].sum() == 20 * 3 * 6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"classes": "base"}, "needs base_images"),
        ({"classes": "novel", "image_set": None}, "needs image_set"),
        ({"classes": "both", "base_images": KNOWN, "image_set": None}, "needs image_set"),
        ({"classes": "both", "base_images": KNOWN, "implants": True}, "without implants"),
        ({"classes": "base", "base_images": KNOWN, "support_views": 2}, "without views"),
        ({"classes": "both", "base_images": NOVEL}, "other classes"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(change, said):
    settings = {"image_set": NOVEL, **SHAPE, **change}
    with pytest.raises(ConfigError, match=said):
        evaluate(toy_base(size=32), **settings)
