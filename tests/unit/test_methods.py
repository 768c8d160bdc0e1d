"""Base classes by class weights, and base and novel classes together, against loops over tasks and queries."""

import pytest
import torch
from torch import Tensor

from implanting.config import TaskConfig
from implanting.inference import PrototypeClassifier
from implanting.methods import BaseClassMethod, JointMethod
from implanting.similarity import pool, probabilities, scaled_cosine
from implanting.tasks import draw_tasks
from toys import labelled, seeded

BASE = labelled([number % 6 for number in range(60)])
NOVEL = labelled([number % 4 for number in range(40)])
CONFIG = TaskConfig(way=3, shot=2, queries=4, tasks=10)
NOVEL_TASKS, BASE_TASKS = draw_tasks(NOVEL, CONFIG), draw_tasks(BASE, CONFIG)


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
