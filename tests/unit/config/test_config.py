import json
from dataclasses import asdict

import pytest

from implanting.config import (
    AugmentConfig,
    DataConfig,
    ImplantConfig,
    InferenceConfig,
    NetworkConfig,
    PretrainConfig,
    RecipeChanges,
    config_from_dict,
)
from implanting.errors import ConfigError
from implanting.pretraining import RECIPES
from toys import tiny_config


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_survives_json(name):
    config = RECIPES[name].config
    assert config_from_dict(PretrainConfig, json.loads(json.dumps(asdict(config)))) == config


def test_nested_values_survive():
    config = tiny_config(
        architecture=NetworkConfig("c128f", 7, True),
        augment=AugmentConfig(1, "zero", False, 0.3),
        data=DataConfig("fc100", 5, 40, 6),
    )
    again = config_from_dict(PretrainConfig, asdict(config))
    assert again == config
    assert again.architecture.width == 7


@pytest.mark.parametrize("length", [{}, {"epochs": 1.0, "iterations": 10}])
def test_contradictory_lengths_are_refused(length):
    with pytest.raises(ConfigError, match="either `epochs` or `iterations`"):
        PretrainConfig(**length)


@pytest.mark.parametrize(
    ("name", "value"), [("iterations", 0), ("batch_size", 0), ("tau", 0.0), ("tau", -1.0), ("learning_rate", 0.0)]
)
def test_what_must_be_positive(name, value):
    with pytest.raises(ConfigError, match=f"`{name}` is {value}"):
        tiny_config(**{name: value})


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (InferenceConfig, "query_pooling", "nonsense"),
        (InferenceConfig, "support_pooling", "dense"),
        (ImplantConfig, "adapt_query_pooling", "flatten"),
        (ImplantConfig, "implant_decision", "never"),
        (AugmentConfig, "crop_mode", "mirror"),
        (NetworkConfig, "network", "resnet50"),
        (tiny_config, "optimizer", "lion"),
        (tiny_config, "pooling", "mean"),
    ],
)
def test_what_must_be_one_of_a_few(kind, name, value):
    config = kind()
    object.__setattr__(config, name, value)  # annotations are checked while tests run, but not for users
    with pytest.raises(ConfigError, match=f"`{name}` is {value}; it must be one of"):
        config.__post_init__()


@pytest.mark.parametrize("name", ["implant_learning_rate", "implant_tau", "decision_margin"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1.0])
def test_settings_of_implants_are_finite(name, value):
    with pytest.raises(ConfigError, match=f"`{name}` is {value}"):
        ImplantConfig(**{name: value})


def test_a_network_needs_a_channel():
    with pytest.raises(ConfigError, match="`width` is 0"):
        NetworkConfig(width=0)


def test_changes_to_a_recipe_leave_the_rest_as_it_is():
    config = tiny_config(iterations=6)
    assert RecipeChanges().applied_to(config) == config
    changed = RecipeChanges(width=3, epochs=0.5, learning_rate=0.2).applied_to(config)
    assert (changed.architecture.width, changed.epochs, changed.iterations) == (3, 0.5, None)
    assert asdict(changed) == asdict(config) | {
        "architecture": {"network": "resnet12", "width": 3, "wide": False, "members": 1, "last_pool": True},
        "epochs": 0.5,
        "iterations": None,
        "learning_rate": 0.2,
    }


def test_changes_are_checked_like_settings():
    with pytest.raises(ConfigError, match="not both"):
        RecipeChanges(epochs=1.0, iterations=5).applied_to(tiny_config())
    with pytest.raises(ConfigError, match="`width`"):
        RecipeChanges(width=0).applied_to(tiny_config())
