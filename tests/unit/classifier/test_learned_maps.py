"""Heat maps of a task: the scores of an image's locations."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from implanting.base import BaseNetwork
from implanting.classifier import Learned
from implanting.classifier.learning import learn
from implanting.config import ImplantConfig, InferenceConfig
from implanting.errors import ConfigError
from implanting.images import load
from rounding import assert_near
from toys import coloured, noise, toy_base

SHADES = coloured(classes=4, per_class=4, size=32, seed=1, prefix="shade")


def learned_by(base: BaseNetwork, implants: bool = False) -> Learned:
    config = ImplantConfig(implant_channels=3, implant_epochs=3) if implants else None
    learned = learn(base, InferenceConfig(), config, [SHADES.images], SHADES.labels, seed=7)
    return replace(learned, classes=np.array(["a", "b", "c", "d"]))


@pytest.mark.parametrize("implants", [False, True])
@pytest.mark.parametrize("finer", [1, 2])
def test_maps_are_the_scores_of_locations(base, implants, finer):
    learned = learned_by(base, implants)
    image = noise(48, 40, 3, seed=3).numpy()
    explanation = learned.explain(image, "similarity", finer)
    assert explanation.map.shape == (4, *base.map_size(32 * finer, 32 * finer))
    assert explanation.classes == ("a", "b", "c", "d")
    larger, seen = (torch.from_numpy(load(image, side).copy())[None] for side in (32 * finer, 32))
    cosines = learned.cosines(learned.features(larger))[0]
    assert_near(explanation.map.reshape(4, -1).T, cosines, scale=1)
    answers = learned.probabilities(learned.cosines(learned.features(seen)))[0]
    assert np.array_equal(explanation.probabilities, answers)  # whatever the maps' size


def test_a_flattened_base_has_no_maps():
    with pytest.raises(ConfigError, match="flatten"):
        learned_by(toy_base(pooling="flatten")).explain(noise(32, 32, 3).numpy(), "similarity", 1)
