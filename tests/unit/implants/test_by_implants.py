import dataclasses
from itertools import product

import torch

import toy_methods
from implanting.config import ImplantConfig, InferenceConfig, TaskConfig
from implanting.fewshot import draw_tasks, evaluate_tasks
from implanting.implants import compute_activations, evaluate_poolings, implant_method
from toy_methods import NOVEL_TASKS
from toys import coloured, toy_base


def test_supports_come_in_all_their_views():
    method = toy_methods.implant_method(margin=0.0, views=2)
    supports = method.supports(NOVEL_TASKS)
    assert supports.labels.tolist() == [0, 0, 1, 1, 2, 2]
    for task, way, shot, view in product(range(10), range(3), range(2), range(2)):
        row = NOVEL_TASKS.support[task, way, shot] + 40 * view
        assert torch.equal(supports.phi[task, 4 * way + 2 * shot + view], method.activations.phi[row])


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
