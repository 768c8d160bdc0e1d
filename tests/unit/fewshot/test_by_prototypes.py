import pytest
import torch

from implanting.dense_classification import PrototypeClassifier, pool
from implanting.fewshot import PrototypeMethod
from toy_methods import NOVEL_PHI, NOVEL_TASKS, naive_class
from toys import seeded


@pytest.mark.parametrize(("support_views", "query_views"), [(3, 1), (3, 3), (1, 3), (2, 3)])
@pytest.mark.parametrize(("support", "query"), [("gap", "gap"), ("gmp", "dense"), ("gap", "gmp")])
def test_prototypes_average_views_and_views_of_a_query_are_further_locations(
    support, query, support_views, query_views
):
    views = NOVEL_PHI + 2 * torch.randn(3, *NOVEL_PHI.shape, generator=seeded(7))
    classify = PrototypeClassifier(support, query, 10.0)
    seen = {"support_views": support_views, "query_views": query_views}
    _, given = PrototypeMethod(views.flatten(0, 1), classify, **seen)(NOVEL_TASKS)
    for number in range(10):
        supports = NOVEL_TASKS.support[number]
        vectors = [pool(views[:support_views, images], support).mean((0, 1, 2)) for images in supports]
        for way in range(3):
            for place, image in enumerate(NOVEL_TASKS.query[number, way]):
                answer = naive_class(views[:query_views, image].flatten(0, 1), torch.stack(vectors), query)
                assert given[number, way, place] == NOVEL_TASKS.classes[number, answer]
    assert not torch.equal(given, PrototypeMethod(views[0], classify)(NOVEL_TASKS)[1])
