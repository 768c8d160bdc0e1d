import itertools

import pytest
import torch
from torch import Tensor

from implanting.config import InferenceConfig, TaskConfig
from implanting.dense_classification import PrototypeClassifier, prototype_classifier
from implanting.errors import ConfigError
from implanting.fewshot import PrototypeMethod, Tasks, draw_tasks
from toys import labelled, seeded
from twins import naive_probabilities

LABELS = [number % 4 for number in range(40)]
TASKS = draw_tasks(labelled(LABELS), TaskConfig(way=3, shot=2, queries=4, tasks=40))
PHI = (torch.randn(4, 6, 5, generator=seeded(1))[LABELS] + torch.randn(40, 6, 5, generator=seeded(2))).abs().double()
"""Features of 40 images of 4 classes that are neither hopeless nor easy: 6 locations of 5 features.

Of double precision: some classes are so nearly as probable that rounding could choose between them.
"""


def unit(vector: Tensor) -> Tensor:
    return vector / vector.norm()


MEAN = torch.rand(5, generator=seeded(3)).double()


def pooled(phi: Tensor, pooling: str) -> list[Tensor]:
    if pooling == "gem-centred":
        return [unit(phi.clamp(min=0).pow(2).mean(0).sqrt()) - 0.75 * MEAN]
    if pooling == "dense":
        return list(phi)
    return [{"gap": phi.mean(0), "gmp": phi.max(0).values, "flatten": phi.flatten()}[pooling]]


def naive_answer(phi: Tensor, vectors: list[Tensor], pooling: str, tau: float) -> int:
    votes = torch.zeros(len(vectors), dtype=phi.dtype)
    for location in pooled(phi, pooling):
        scores = torch.stack([tau * unit(location) @ unit(vector) for vector in vectors])
        votes += scores.exp() / scores.exp().sum()
    return int(votes.argmax())


def naive_answers(tasks: Tasks, support_pooling: str, query_pooling: str, tau: float) -> list[list[list[int]]]:
    answers = []
    for support, query in zip(tasks.support, tasks.query, strict=True):
        vectors = [
            torch.stack([pooled(PHI[image], support_pooling)[0] for image in images]).mean(0) for images in support
        ]
        answers.append(
            [[naive_answer(PHI[image], vectors, query_pooling, tau) for image in images] for images in query]
        )
    return answers


POOLINGS = [*itertools.product(["gap", "gmp"], ["gap", "gmp", "dense"]), ("flatten", "flatten")]


@pytest.mark.parametrize(("support", "query"), POOLINGS)
def test_answers_against_a_loop_over_tasks_and_queries(support, query):
    truth, given = PrototypeMethod(PHI, PrototypeClassifier(support, query, 10.0))(TASKS)
    naive = torch.tensor(naive_answers(TASKS, support, query, 10.0))
    assert torch.equal(given, TASKS.classes.gather(1, naive.flatten(1)).view_as(given))
    assert 0.4 < (truth == given).float().mean() < 0.98


def test_centred_answers_against_a_loop():
    classify = PrototypeClassifier("gem-centred", "gem-centred", 10.0, MEAN)
    _, given = PrototypeMethod(PHI, classify)(TASKS)
    naive = torch.tensor(naive_answers(TASKS, "gem-centred", "gem-centred", 10.0))
    assert torch.equal(given, TASKS.classes.gather(1, naive.flatten(1)).view_as(given))
    apart = PrototypeMethod(PHI, PrototypeClassifier("gem", "gem", 10.0))(TASKS)[1]
    assert not torch.equal(given, apart)


def test_implants_have_no_part_in_the_mean_direction():
    wide = torch.cat([PHI, PHI[..., :2]], dim=-1)
    classify = PrototypeClassifier("gem-centred", "gem-centred", 10.0, MEAN)
    expected = [unit(each.pow(2).mean(0).sqrt()) - 0.75 * torch.cat([MEAN, torch.zeros(2)]) for each in wide]
    assert torch.allclose(classify.vectors(wide), torch.stack(expected))
    assert torch.equal(classify.asked(wide).squeeze(1), classify.vectors(wide))


def test_a_base_without_a_mean_direction_is_not_centred():
    test = InferenceConfig("gem-centred", "gem-centred")
    with pytest.raises(ConfigError, match="`implanting join` with `gem`"):
        prototype_classifier("gap", 7.0, test)
    assert str(prototype_classifier("gap", 7.0, test, MEAN)) == "gem-centred/gem-centred"
    with pytest.raises(ConfigError, match="set `support_pooling` and `query_pooling`"):
        InferenceConfig("gem-centred", "gap")


def test_probabilities_of_a_task_one_can_draw():
    # Two classes, east and north; a query to the north-north-east.
    support = torch.tensor([[1.0, 0.0], [0.0, 3.0]]).view(1, 2, 1, 1, 2)
    query = torch.tensor([0.6, 0.8]).view(1, 1, 1, 2)
    expected = torch.softmax(torch.tensor([6.0, 8.0]), -1)
    torch.testing.assert_close(
        naive_probabilities(PrototypeClassifier("gap", "gap", 10.0), support, query)[0, 0], expected
    )


def test_tau_matters_for_dense_queries_only():
    def answers(pooling: str, tau: float) -> Tensor:
        return PrototypeMethod(PHI, PrototypeClassifier("gap", pooling, tau))(TASKS)[1]

    assert torch.equal(answers("gap", 1.0), answers("gap", 50.0))
    assert not torch.equal(answers("dense", 1.0), answers("dense", 50.0))


@pytest.mark.parametrize(
    ("trained", "test", "expected"),
    [
        ("dense", InferenceConfig(), ("gap", "dense")),
        ("gap", InferenceConfig(), ("gap", "gap")),
        ("gmp", InferenceConfig(), ("gap", "gap")),
        ("dense", InferenceConfig("gmp", "gap"), ("gmp", "gap")),
        ("flatten", InferenceConfig("gmp", "gap"), ("flatten", "flatten")),
    ],
)
def test_how_a_base_is_tested(trained, test, expected):
    classify = prototype_classifier(trained, 7.0, test)
    assert (classify.support_pooling, classify.query_pooling, classify.tau) == (*expected, 7.0)
    assert str(classify) == f"{expected[0]}/{expected[1]}"
