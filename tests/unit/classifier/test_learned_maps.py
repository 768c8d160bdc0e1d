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
from implanting.runtime import machine
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


@pytest.mark.parametrize("finer", [129, 1000, 10**30])
def test_no_map_is_as_fine_as_to_need_more_memory_than_there_is_anywhere(base, finer):
    with pytest.raises(ConfigError, match=rf"`finer` is {finer}; it must be from 1 to 128, as images of 32 px"):
        learned_by(base).explain(noise(32, 32, 3).numpy(), "similarity", finer)


def test_a_map_that_needs_more_memory_than_is_free_is_refused(base, monkeypatch):
    learned, image = learned_by(base), noise(32, 32, 3).numpy()
    monkeypatch.setattr(machine, "free_memory", lambda: 2**18)
    with pytest.raises(ConfigError, match=r"`finer` 4, an image of 128 px, needs .* GiB of memory, and .* are free"):
        learned.explain(image, "similarity", 4)
    assert learned.explain(image, "similarity", 1).map.shape == (4, *base.map_size(32, 32))


def test_a_flattened_base_has_no_maps():
    with pytest.raises(ConfigError, match="flatten"):
        learned_by(toy_base(pooling="flatten")).explain(noise(32, 32, 3).numpy(), "similarity", 1)
