"""Rivals on frozen features: each against a loop over tasks written from its definition."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from implanting.baselines import (
    BaseExamples,
    CosineFineTuningMethod,
    ImprintedMethod,
    JointQueries,
    LogisticMethod,
    NearestMethod,
    SimpleShotMethod,
)
from implanting.baselines.prototypical_networks import PrototypicalMethod
from implanting.config import RivalConfig, TaskConfig
from implanting.fewshot import draw_queries, draw_tasks
from toys import labelled, seeded

DIM = 6
IMAGES = labelled([0, 1, 2, 3] * 9)
VECTORS = (
    torch.randn(len(IMAGES), DIM, generator=seeded(1)) + 0.8 * torch.randn(4, DIM, generator=seeded(2))[IMAGES.labels]
)
TASKS = draw_tasks(IMAGES, TaskConfig(way=3, shot=3, queries=4, tasks=20, seed=3))
BASE_MEAN = torch.randn(DIM, generator=seeded(4))


def unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.norm(dim=-1, keepdim=True)


def by_loop(answer) -> Tensor:
    """The class that `answer` gives each query from the supports of its task, class by class."""
    given = [
        [[classes[answer(VECTORS[support], VECTORS[image])] for image in row] for row in query]
        for classes, support, query in zip(TASKS.classes, TASKS.support, TASKS.query, strict=True)
    ]
    return torch.tensor(given)


def nearest(support: Tensor, query: Tensor) -> int:
    best = [max(float(unit(image) @ unit(query)) for image in of_class) for of_class in support]
    return int(np.argmax(best))


def simpleshot(support: Tensor, query: Tensor) -> int:
    means = [torch.stack([unit(image - BASE_MEAN) for image in of_class]).mean(0) for of_class in support]
    return int(np.argmin([float((unit(query - BASE_MEAN) - mean).norm()) for mean in means]))


def euclidean(support: Tensor, query: Tensor) -> int:
    return int(np.argmin([float((query - of_class.mean(0)).square().sum()) for of_class in support]))


def cosine(support: Tensor, query: Tensor) -> int:
    return int(np.argmax([float(unit(query) @ unit(of_class.mean(0))) for of_class in support]))


def imprinted(support: Tensor, query: Tensor) -> int:
    weights = [unit(torch.stack([unit(image) for image in of_class]).mean(0)) for of_class in support]
    return int(np.argmax([float(unit(query) @ weight) for weight in weights]))


@pytest.mark.parametrize(
    ("method", "twin"),
    [
        (NearestMethod(VECTORS), nearest),
        (SimpleShotMethod(VECTORS, BASE_MEAN), simpleshot),
        (PrototypicalMethod(VECTORS, "euclidean"), euclidean),
        (PrototypicalMethod(VECTORS, "cosine"), cosine),
        (ImprintedMethod(VECTORS, 10.0, RivalConfig()), imprinted),
    ],
    ids=["nearest", "simpleshot", "euclidean", "cosine", "imprinted"],
)
def test_answers_are_those_of_a_loop_over_tasks(method, twin):
    truth, given = method(TASKS)
    assert torch.equal(given, by_loop(twin))
    assert torch.equal(truth, TASKS.classes[:, :, None].expand(truth.shape))
    assert 0.4 < float((truth == given).float().mean()) < 1  # neither chance nor trivial


def test_logistic_regression_is_scikit_learns():
    from sklearn.linear_model import LogisticRegression

    _, given = LogisticMethod(VECTORS, RivalConfig(logistic_strength=2.0))(TASKS)

    def twin(support: Tensor, query: Tensor) -> int:
        flat = unit(support).flatten(0, 1).double().numpy()
        fitted = LogisticRegression(C=2.0, tol=1e-8, max_iter=1000).fit(flat, np.repeat(np.arange(3), 3))
        return int(fitted.predict(unit(query).double().numpy()[None])[0])

    assert torch.equal(given, by_loop(twin))


def test_cosine_weights_are_those_of_each_task_trained_by_itself():
    config = RivalConfig(cosine_steps=7, cosine_learning_rate=0.05)
    method = CosineFineTuningMethod(VECTORS.double(), config)
    _, together = method(TASKS)
    alone = torch.cat([method(TASKS[number : number + 1])[1] for number in range(len(TASKS))])
    assert torch.equal(together, alone)
    _, untrained = CosineFineTuningMethod(VECTORS.double(), RivalConfig(cosine_steps=0))(TASKS)
    assert torch.equal(untrained, PrototypicalMethod(unit(VECTORS.double()), "cosine")(TASKS)[1])
    assert not torch.equal(together, untrained)


def joint_queries() -> tuple[JointQueries, Tensor]:
    base_images = labelled([0, 1, 2, 3, 4] * 6)
    vectors = torch.randn(len(base_images), DIM, generator=seeded(5))
    tasks = draw_queries(base_images, TaskConfig(way=3, shot=1, queries=4, tasks=20, seed=3))
    return JointQueries(vectors, tasks), torch.randn(5, DIM, generator=seeded(6))


def test_imprinted_weights_stand_beside_those_of_base_classes():
    joint, weights = joint_queries()
    truth, given = ImprintedMethod(VECTORS, 10.0, RivalConfig(), weights, joint=joint)(TASKS)
    for number, (support, query) in enumerate(zip(TASKS.support, TASKS.query, strict=True)):
        novel = [unit(unit(VECTORS[of_class]).mean(0)) for of_class in support]
        every = torch.stack([*unit(weights), *novel])
        names = [*range(5), *(5 + TASKS.classes[number]).tolist()]
        base = [
            [names[int((every @ joint.vectors[image]).argmax())] for image in row] for row in joint.tasks.query[number]
        ]
        seen = [[names[int((every @ VECTORS[image]).argmax())] for image in row] for row in query]
        assert given[number].tolist() == base + seen
    assert truth[:, :3].max() < 5 <= truth[:, 3:].min()


def test_fine_tuning_raises_the_likelihood_of_the_supports_and_leaves_base_weights_useful():
    joint, weights = joint_queries()
    examples = BaseExamples(weights.repeat(4, 1), [torch.arange(number, 20, 5) for number in range(5)])

    def likelihood(steps: int) -> float:
        config = RivalConfig(imprint_steps=steps, imprint_learning_rate=0.02)
        method = ImprintedMethod(VECTORS, 10.0, config, weights, examples, joint)
        scores = 10 * unit(unit(VECTORS)[TASKS.support].flatten(1, 2)) @ unit(method.weights(TASKS)).mT
        own = 5 + torch.arange(3).repeat_interleave(3)
        return float(scores.log_softmax(-1)[:, torch.arange(9), own].mean())

    config = RivalConfig(imprint_steps=20, imprint_learning_rate=0.02)
    method = ImprintedMethod(VECTORS, 10.0, config, weights, examples, joint)
    alone = [method.weights(TASKS[number : number + 1])[0] for number in range(len(TASKS))]
    torch.testing.assert_close(method.weights(TASKS), torch.stack(alone))  # a task depends on its number alone
    assert likelihood(0) < likelihood(20) < 0
    assert math.isfinite(likelihood(20))
