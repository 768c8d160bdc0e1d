import json
from dataclasses import asdict

import pytest

from implanting.config import AugmentConfig, DataConfig, NetworkConfig, PretrainConfig, config_from_dict
from implanting.errors import ConfigError
from implanting.recipes import RECIPES
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
    with pytest.raises(ConfigError, match="either --epochs or --iterations"):
        PretrainConfig(**length)


@pytest.mark.parametrize(
    ("name", "value"), [("iterations", 0), ("batch_size", 0), ("tau", 0.0), ("tau", -1.0), ("learning_rate", 0.0)]
)
def test_what_must_be_positive(name, value):
    with pytest.raises(ConfigError, match=f"--{name.replace('_', '-')} is {value}"):
        tiny_config(**{name: value})


def test_a_network_needs_a_channel():
    with pytest.raises(ConfigError, match="--width is 0"):
        NetworkConfig(width=0)
