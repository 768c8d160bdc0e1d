import pytest
import torch

from implanting.dense_classification import PrototypeClassifier, pool
from implanting.fewshot import PrototypeMethod
from toy_methods import NOVEL_PHI, NOVEL_TASKS, naive_class
from toys import seeded


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
