from typing import get_args

import pytest

from implanting.config import PretrainConfig, TrainingMethod
from implanting.pretraining import RECIPES, with_method


def stated_by_the_paper(config: PretrainConfig) -> tuple:
    return config.iterations, config.batch_size, config.optimizer, config.tau, config.data.image_size


def test_the_paper_on_miniimagenet():
    config = RECIPES["paper-miniimagenet"].config
    assert stated_by_the_paper(config) == (8_000, 200, "sgd", 10.0, 84)


def test_the_paper_on_fc100():
    config = RECIPES["paper-fc100"].config
    assert stated_by_the_paper(config) == (12_500, 512, "adam", 100.0, 32)


def test_both_train_the_papers_network_densely():
    for name in ("paper-miniimagenet", "paper-fc100"):
        config = RECIPES[name].config
        assert (config.architecture.network, config.architecture.width, config.architecture.wide) == (
            "resnet12",
            64,
            False,
        )
        assert config.pooling == "dense"


@pytest.mark.parametrize("method", [name for name in get_args(TrainingMethod) if name != "cosine"])
def test_other_systems_are_trained_without_what_only_the_classifier_can_use(method):
    recipe = RECIPES["cpu-strong"].config
    assert recipe.rotation == 0.5
    other = with_method(recipe, method, start="base")
    assert (other.method, other.rotation, other.mixup) == (method, 0.0, 0.0)
    assert other.epochs == recipe.epochs
    assert with_method(recipe, "cosine") == recipe
