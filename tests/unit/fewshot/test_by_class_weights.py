"""Base classes by class weights, and base and novel classes together, against loops."""

import pytest
import torch

from implanting.dense_classification import PrototypeClassifier, pool
from implanting.fewshot.by_class_weights import BaseClassMethod, JointMethod
from toy_methods import BASE, BASE_PHI, BASE_TASKS, NOVEL, NOVEL_PHI, NOVEL_TASKS, WEIGHTS, naive_class


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
