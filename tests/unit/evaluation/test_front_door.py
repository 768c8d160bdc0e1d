import dataclasses

import pytest
import torch

from implanting.config import ImplantConfig, InferenceConfig, TaskConfig
from implanting.datasets import add_views
from implanting.dense_classification import PrototypeClassifier, pool
from implanting.errors import ConfigError
from implanting.evaluation import Approach, TaskImages, Trial, evaluate
from implanting.evaluation.comparison import method_of
from implanting.evaluation.features import Features
from implanting.fewshot import (
    PrototypeMethod,
    base_class_method,
    draw_queries,
    draw_tasks,
    evaluate_tasks,
    joint_method,
)
from rounding import assert_near
from toys import coloured, seeded, toy_base


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


def test_a_base_says_how_novel_classes_are_pooled_unless_the_user_does():
    base, images = toy_base(size=32, pooling="gap"), coloured(classes=3, per_class=8, size=32)
    shape = {"way": 3, "shot": 2, "queries": 4, "tasks": 4}
    assert evaluate(base, images, **shape).method == "prototypes (gap/gap)"
    base.usage = dataclasses.replace(base.usage, pooling="gem")
    assert evaluate(base, images, **shape).method == "prototypes (gem/gem)"
    settings = ImplantConfig(implant_channels=2, implant_epochs=2)
    assert evaluate(base, images, **shape, implants=settings).method == "implants (gem/gem)"
    assert evaluate(base, images, **shape, support_pooling="gap").method == "prototypes (gap/gap)"
    assert evaluate(base, images, **shape, query_pooling="dense").method == "prototypes (gap/dense)"
    known = coloured(classes=3, per_class=8, size=32)
    assert evaluate(base, None, **shape, classes="base", base_images=known).method == "class weights (gap)"


def test_a_base_with_a_mean_direction_is_tested_with_it():
    base, images = toy_base(pooling="gap", centred=True), coloured(classes=3, per_class=8, size=32)
    shape = {"way": 3, "shot": 2, "queries": 4, "tasks": 4}
    result = evaluate(base, images, **shape, support_views=2, query_views=2)
    assert result.method == "prototypes (gem-centred/gem-centred, 2 views, queries in 2 views)"
    phi = base.embed(add_views(images, 2).images)
    classify = PrototypeClassifier("gem-centred", "gem-centred", base.tau, base.mean_direction)
    method = PrototypeMethod(phi, classify, support_views=2, query_views=2)
    by_hand = evaluate_tasks(method, draw_tasks(images, result.config), result.config, 3)
    assert result.per_task.tolist() == by_hand.per_task.tolist()
    settings = ImplantConfig(implant_channels=2, implant_epochs=2)
    assert evaluate(base, images, **shape, implants=settings).method == "implants (gem-centred/gem-centred)"
    last_block = evaluate(base, images, **shape, method="last-block").method
    assert last_block == "last block fine-tuned (gem-centred/gem-centred, 10 steps)"
    assert evaluate(base, images, **shape, support_pooling="gap").method == "prototypes (gap/gap)"
    centring = {"support_pooling": "gem-centred", "query_pooling": "gem-centred"}
    with pytest.raises(ConfigError, match="class weights, which are not centred"):
        evaluate(base, images, **shape, classes="both", base_images=images, **centring)
    with pytest.raises(ConfigError, match="`method` logistic does not centre"):
        evaluate(base, images, **shape, method="logistic", **centring)
    assert evaluate(base, images, **shape, method="logistic").method.startswith("logistic")
    plain = toy_base(pooling="gap")
    plain.embed = lambda *_: pytest.fail("embedded before it was refused")
    for further in ({}, {"implants": settings}, {"method": "last-block"}):
        with pytest.raises(ConfigError, match="`implanting join` with `gem`"):
            evaluate(plain, images, **shape, **centring, **further)


def test_centred_views_of_a_query_are_its_locations():
    maps = torch.randn(2 * 6, 9, 4, generator=seeded(1))  # two views of six images
    classify = PrototypeClassifier("gem-centred", "gem-centred", 10.0, torch.rand(4, generator=seeded(2)))
    method = PrototypeMethod(maps, classify, support_views=1, query_views=2)
    both = torch.cat(maps.split(6), dim=1)
    assert_near(method.query_directions, torch.nn.functional.normalize(classify.asked(both), dim=-1))


def test_other_methods_read_the_generalised_mean_too():
    base, images = toy_base(size=32, pooling="gap"), coloured(classes=3, per_class=8, size=32)
    base.usage = dataclasses.replace(base.usage, pooling="gem")
    features = Features(base, TaskImages(images), [Approach(InferenceConfig(), method="nearest")])
    task = TaskConfig(3, 2, 4, 2)
    for pooling, expected in ((InferenceConfig(), "gem"), (InferenceConfig("gap"), "gap")):
        method = method_of(Trial(Approach(pooling, method="nearest"), task), features)
        assert torch.equal(method.vectors, pool(features.phi, expected).squeeze(1))


def test_queries_are_seen_in_views():
    base, images = toy_base(size=32), coloured(classes=3, per_class=8, size=32)
    shape = {"way": 3, "shot": 2, "queries": 4, "tasks": 4}
    result = evaluate(base, images, **shape, support_views=2, query_views=3)
    assert result.method == "prototypes (gap/dense, 2 views, queries in 3 views)"
    classify = PrototypeClassifier("gap", "dense", base.tau)
    method = PrototypeMethod(base.embed(add_views(images, 3).images), classify, support_views=2, query_views=3)
    assert (
        result.per_task.tolist()
        == evaluate_tasks(method, draw_tasks(images, result.config), result.config, 3).per_task.tolist()
    )


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
        ({"classes": "base", "base_images": KNOWN, "query_views": 2}, "without views: leave out `query_views`"),
        ({"method": "nearest", "query_views": 2}, "without views: leave out `query_views`"),
        ({"implants": True, "query_views": 2}, "without implants: leave out one of them"),
        ({"query_views": 7}, "`query_views` is 7; it must be from 1 to 6"),
        ({"classes": "both", "base_images": NOVEL}, "other classes"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(change, said):
    settings = {"image_set": NOVEL, **SHAPE, **change}
    with pytest.raises(ConfigError, match=said):
        evaluate(toy_base(size=32), **settings)
