"""Supports in several views: left out with all their views, averaged in prototypes; against explicit loops."""

import itertools
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from implanting.dense_classification import pool, scaled_cosine
from implanting.errors import DataError
from implanting.implants import Supports, implant_tensors
from implanting.implants.adaptation import adapt, inner_products, leave_one_out_loss, leave_one_out_scores, queries_of
from implanting.implants.stream import new_implants
from toy_tasks import CONFIG, SIZES, TAIL, drawn, fitting, generators
from twins import naive_adapt, naive_implants, naive_loss, naive_scores

LABELS = torch.tensor([1, 0, 2, 0, 1, 1])
"""Two images of class 0, three of class 1, and one of class 2."""

GROUPS = torch.arange(6).repeat_interleave(2)
ROW_LABELS = LABELS[GROUPS]
POOLINGS = list(itertools.product(["gap", "gmp"], ["gap", "gmp", "dense"]))


def strangers() -> Supports:
    """Images that are supports of no task."""
    return drawn(torch.zeros(5, dtype=torch.long), views=1, seed=9)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize(("support", "query"), POOLINGS)
def test_an_image_is_left_out_with_all_its_views(support, query):
    supports = drawn(LABELS)
    config = replace(CONFIG, adapt_support_pooling=support, adapt_query_pooling=query)
    queried, groups = queries_of(ROW_LABELS, GROUPS)
    membership = F.one_hot(ROW_LABELS).to(supports.phi.dtype)
    scores = leave_one_out_scores(inner_products(supports.phi, membership, config, groups), membership, 10.0)
    for task in range(2):
        expected = naive_scores(supports.phi[task], ROW_LABELS, config, GROUPS.tolist())
        assert list(expected) == queried.nonzero().flatten().tolist() == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]
        for row, naive in expected.items():
            torch.testing.assert_close(scores[task, row], naive)
    expected_loss = sum(naive_loss(supports.phi[task], ROW_LABELS, config, GROUPS.tolist()) for task in range(2))
    torch.testing.assert_close(leave_one_out_loss(scores, ROW_LABELS, queried), expected_loss)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("labels", [LABELS, torch.tensor([2, 0, 1])])
def test_adapting_on_views_equals_training_by_convolutions_and_loops(labels):
    supports, queries = drawn(labels), strangers().base_maps
    rows = supports.row_labels
    one_shot = len(labels) == 3
    left_out = None if one_shot else supports.groups.tolist()  # of one image, only the view itself
    fitted = fitting().fit_implants(supports, generators(0, 1))
    with torch.no_grad():
        answers = fitted.implants(queries)
    for task in range(2):
        alone = [maps[task : task + 1] for maps in supports.base_maps]
        twin = new_implants(TAIL, SIZES, 3, generators(task))
        statistics = naive_adapt(twin, alone, supports.phi[task : task + 1], rows, CONFIG, left_out)
        with torch.no_grad():
            expected, _ = naive_implants(twin, 0, [maps[task : task + 1] for maps in queries], statistics)
        torch.testing.assert_close(answers[task], expected)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_share_the_tasks_and_change_nothing(threads, two_threads):
    supports, five = drawn(LABELS, tasks=5), range(5)
    implants = []
    for number in (1, threads):
        torch.set_num_threads(number)
        implants.append(implant_tensors(fitting().adapted(supports, generators(*five))))
    alone, shared = implants
    assert list(alone) == list(shared)
    for name, expected in alone.items():
        torch.testing.assert_close(shared[name], expected)


def test_one_image_a_class_needs_two_views():
    labels = torch.arange(3)
    assert fitting().can_train(labels)
    alone = fitting(replace(CONFIG, adapt_views=1))
    assert not alone.can_train(labels)
    with pytest.raises(DataError, match="two views"):
        alone.fit_implants(drawn(labels), generators(0, 1))
    assert alone.can_train(LABELS)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize(("trained", "averaged"), [(1, 3), (3, 1), (2, 2)])
@pytest.mark.parametrize(("support", "query"), [("gap", "dense"), ("gmp", "gap")])
def test_implants_see_some_views_and_prototypes_average_others(trained, averaged, support, query):
    supports, others, config = drawn(LABELS, views=3), strangers(), replace(CONFIG, adapt_views=trained)
    how = fitting(config, averaged, support, query)
    seen = [image * 3 + view for image in range(6) for view in range(trained)]
    maps = [part[:, seen] for part in supports.base_maps]
    shown = Supports(maps, supports.phi[:, seen], LABELS, SIZES, trained)
    implants = adapt(shown, TAIL, config, generators(0, 1))
    with torch.no_grad():
        wide = torch.cat([supports.phi, implants(supports.base_maps)], -1)
        queries = torch.cat([others.phi, implants(others.base_maps)], -1)
    for fitted, phi, asked, tau in (
        (how.fit_prototypes(supports), supports.phi, others.phi, 17.0),
        (how.fit_implants(supports, generators(0, 1)), wide, queries, 10.0),
    ):
        given = fitted.probabilities(others.base_maps, others.phi)
        for task in range(2):
            vectors = []
            for way in range(3):
                own = [row for row in range(18) if LABELS[row // 3] == way and row % 3 < averaged]
                vectors.append(pool(phi[task, own], support).mean((0, 1)))
            expected = scaled_cosine(pool(asked[task], query), torch.stack(vectors), tau).softmax(-1).mean(1)
            torch.testing.assert_close(given[task], expected)


@pytest.mark.usefixtures("in_float64")
def test_a_task_by_itself_is_a_batch_of_one():
    supports = drawn(LABELS)
    one = Supports.of_one_task([maps[1] for maps in supports.base_maps], supports.phi[1], LABELS, SIZES, views=2)
    how = fitting()
    alone = how.fit_implants(one, generators(1)).prototypes
    torch.testing.assert_close(alone[0], how.fit_implants(supports, generators(0, 1)).prototypes[1])
