"""Views, implants by decision, base classes by class weights, and base and novel classes together, against loops."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from implanting.activations import Activations
from implanting.config import TaskConfig
from implanting.crossfit import cross_fit, implants_help
from implanting.inference import PrototypeClassifier
from implanting.methods import BaseClassMethod, DecidedMethod, ImplantMethod, JointMethod, PrototypeMethod
from implanting.similarity import pool, probabilities, scaled_cosine
from implanting.tasks import draw_tasks
from toy_tasks import CONFIG as CONFIG_OF_IMPLANTS
from toy_tasks import SIZES, fitting
from toys import labelled, seeded

BASE = labelled([number % 6 for number in range(60)])
NOVEL = labelled([number % 4 for number in range(40)])
CONFIG = TaskConfig(way=3, shot=2, queries=4, tasks=10)
NOVEL_TASKS, BASE_TASKS = draw_tasks(NOVEL, CONFIG), draw_tasks(BASE, CONFIG)
MORE_SHOTS = draw_tasks(NOVEL, replace(CONFIG, shot=4))


def features(labels: Tensor, classes: int, seed: int) -> Tensor:
    centres = torch.randn(classes, 1, 5, generator=seeded(seed))
    return centres[labels] + 0.7 * torch.randn(len(labels), 4, 5, generator=seeded(seed + 1))


BASE_PHI, NOVEL_PHI = features(BASE.labels, 6, seed=1), features(NOVEL.labels, 4, seed=5)
WEIGHTS = torch.stack([BASE_PHI[BASE.labels == number].mean((0, 1)) for number in range(6)])


def naive_class(phi: Tensor, vectors: Tensor, pooling: str) -> int:
    scores = scaled_cosine(pool(phi[None], pooling), vectors, 10.0)
    return int(probabilities(scores)[0].argmax())


@pytest.mark.parametrize("pooling", ["gap", "gmp", "dense"])
def test_base_classes_are_told_apart_by_all_class_weights(pooling):
    method = BaseClassMethod(BASE_PHI, WEIGHTS, PrototypeClassifier("gap", pooling, 10.0))
    truth, given = method(BASE_TASKS)
    for number in range(10):
        for way in range(3):
            for query in range(4):
                image = BASE_TASKS.query[number, way, query]
                assert truth[number, way, query] == BASE.labels[image]
                assert given[number, way, query] == naive_class(BASE_PHI[image], WEIGHTS, pooling)
    assert 0.5 < (truth == given).float().mean() < 1


@pytest.mark.parametrize(("support", "query"), [("gap", "gap"), ("gmp", "dense")])
def test_both_pools_base_and_novel_queries_over_weights_and_prototypes(support, query):
    method = JointMethod(NOVEL_PHI, BASE_PHI, BASE_TASKS, WEIGHTS, PrototypeClassifier(support, query, 10.0))
    truth, given = method(NOVEL_TASKS[4:8])
    assert truth.shape == (4, 6, 4)  # three base classes, then three novel ones
    for row, number in enumerate(range(4, 8)):
        supports = [pool(NOVEL_PHI[images], support).mean((0, 1)) for images in NOVEL_TASKS.support[number]]
        vectors = torch.cat([WEIGHTS, torch.stack(supports)])
        names = [*range(6), *(6 + NOVEL_TASKS.classes[number]).tolist()]
        for group in range(6):
            base = group < 3
            images = (BASE_TASKS if base else NOVEL_TASKS).query[number, group % 3]
            for place, image in enumerate(images):
                phi, label = (BASE_PHI, BASE.labels[image]) if base else (NOVEL_PHI, 6 + NOVEL.labels[image])
                assert truth[row, group, place] == label
                assert given[row, group, place] == names[naive_class(phi[image], vectors, query)]


@pytest.mark.parametrize(("support", "query"), [("gap", "gap"), ("gmp", "dense")])
def test_prototypes_average_the_views_of_supports_and_queries_are_seen_once(support, query):
    views = NOVEL_PHI + 2 * torch.randn(3, *NOVEL_PHI.shape, generator=seeded(7))
    classify = PrototypeClassifier(support, query, 10.0)
    _, given = PrototypeMethod(views.flatten(0, 1), classify, views=3)(NOVEL_TASKS)
    for number in range(10):
        vectors = [pool(views[:, images], support).mean((0, 1, 2)) for images in NOVEL_TASKS.support[number]]
        for way in range(3):
            for place, image in enumerate(NOVEL_TASKS.query[number, way]):
                answer = naive_class(views[0, image], torch.stack(vectors), query)
                assert given[number, way, place] == NOVEL_TASKS.classes[number, answer]
    assert not torch.equal(given, PrototypeMethod(views[0], classify)(NOVEL_TASKS)[1])


def implant_method(margin: float, views: int = 1) -> ImplantMethod:
    generator = seeded(11)
    centres = [torch.randn(4, 1, channels, generator=generator) for channels in (4, 8, 8, 8)]
    *base_maps, phi = (
        centre[NOVEL.labels.repeat(views)]
        + 2 * torch.randn(40 * views, locations, centre.shape[2], generator=generator)
        for centre, locations in zip(centres, (16, 16, 16, 4), strict=True)
    )
    config = replace(CONFIG_OF_IMPLANTS, adapt_views=views, decision_margin=margin)
    return ImplantMethod(Activations(base_maps, phi, SIZES), fitting(config, views), seed=0)


def test_each_task_takes_implants_or_prototypes_as_its_held_out_supports_say():
    implants = implant_method(margin=0.0)
    prototypes = PrototypeMethod(implants.activations.phi, implants.fitting.by_prototypes)
    held_out = cross_fit(implants.supports(MORE_SHOTS), implants.fitting, implants.generators(MORE_SHOTS))
    helped = implants_help(held_out, implants.fitting.config)
    assert 0 < helped.sum() < 10
    expected = torch.where(helped[:, None, None], implants(MORE_SHOTS)[1], prototypes(MORE_SHOTS)[1])
    assert torch.equal(DecidedMethod(implants)(MORE_SHOTS)[1], expected)
    sure = implant_method(margin=100.0)
    assert torch.equal(DecidedMethod(sure)(MORE_SHOTS)[1], implants(MORE_SHOTS)[1])


def test_supports_come_in_all_their_views():
    method = implant_method(margin=0.0, views=2)
    supports = method.supports(NOVEL_TASKS)
    assert supports.labels.tolist() == [0, 0, 1, 1, 2, 2]
    for task, way, shot, view in product(range(10), range(3), range(2), range(2)):
        row = NOVEL_TASKS.support[task, way, shot] + 40 * view
        assert torch.equal(supports.phi[task, 4 * way + 2 * shot + view], method.activations.phi[row])
