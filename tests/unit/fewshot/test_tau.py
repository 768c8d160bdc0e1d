import math

import pytest
import torch

from implanting.base import BaseNetwork
from implanting.config import TaskConfig
from implanting.datasets import ImageSet
from implanting.dense_classification import PrototypeClassifier
from implanting.errors import ConfigError
from implanting.fewshot import PrototypeMethod, draw_tasks, with_tau_from
from implanting.fewshot.tau import CANDIDATES, choose_tau, cross_entropy
from implanting.images import Normalisation, Preprocessing
from implanting.networks.resnet12 import resnet12
from toys import coloured, labelled, seeded, toy_base
from twins import naive_probabilities

IMAGES = labelled([number % 4 for number in range(32)])
CONFIG = TaskConfig(way=3, shot=2, queries=3, tasks=5)


def features(spread: float) -> torch.Tensor:
    """phi of 3 locations about the centre of each image's class."""
    centres = torch.randn(4, 1, 6, generator=seeded())
    return centres[IMAGES.labels] + spread * torch.randn(32, 3, 6, generator=seeded(1))


@pytest.mark.parametrize("pooling", ["dense", "gap"])
def test_the_loss_is_that_of_the_probabilities_of_inference(pooling):
    phi, tasks = features(1.0), draw_tasks(IMAGES, CONFIG)
    for tau in (2.0, 30.0):
        classify = PrototypeClassifier("gap", pooling, tau)
        probabilities = naive_probabilities(classify, phi[tasks.support], phi[tasks.query.flatten(1)])
        truth = torch.arange(3).repeat_interleave(3)
        expected = -sum(math.log(task[query, truth[query]]) for task in probabilities for query in range(9)) / 45
        assert cross_entropy(*PrototypeMethod(phi, classify).cosines(tasks), tau).item() == pytest.approx(
            expected, rel=1e-4
        )


def test_the_chosen_tau_is_the_best_of_all():
    phi = features(2.0)
    chosen = choose_tau(phi, IMAGES, "dense", CONFIG)
    cosines = PrototypeMethod(phi, PrototypeClassifier("gap", "dense", 1.0)).cosines(draw_tasks(IMAGES, CONFIG))
    losses = {float(tau): cross_entropy(*cosines, float(tau)).item() for tau in CANDIDATES}
    assert losses[chosen] == min(losses.values())
    assert 1 < chosen < 1000


def test_classes_that_lie_apart_make_a_surer_scale():
    assert choose_tau(features(0.3), IMAGES, "gap", CONFIG) > 2 * choose_tau(features(2.0), IMAGES, "gap", CONFIG)


def test_few_images_make_smaller_tasks():
    few = labelled([0, 0, 1, 1])
    assert choose_tau(torch.randn(4, 2, 5, generator=seeded()), few, "gap") >= 1


def test_ones_own_network_gets_the_tau_of_its_default_pooling():
    image_set = coloured(classes=4, per_class=8, size=32)
    preprocessing = Preprocessing((32, 32), Normalisation((0.5,) * 3, (0.2,) * 3))
    for pooling in ("gap", "dense"):
        base = BaseNetwork.from_module(resnet12(2), preprocessing, pooling=pooling)
        phi = base.embed(image_set.images)
        assert with_tau_from(base, image_set).tau == choose_tau(phi, image_set, pooling)


def test_a_learned_tau_is_not_replaced():
    image_set: ImageSet = coloured(size=32)
    with pytest.raises(ConfigError, match="has learned its tau"):
        with_tau_from(toy_base(), image_set)
