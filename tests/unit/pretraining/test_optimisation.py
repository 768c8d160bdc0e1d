import dataclasses

import pytest
import torch
from torch import Tensor

from implanting.base import build
from implanting.config import NetworkConfig
from implanting.dense_classification import classification_loss
from implanting.pretraining.optimisation import (
    build_optimizer,
    load_optimizer,
    optimizer_tensors,
    schedule,
    total_steps,
)
from implanting.pretraining.run import StageOne
from toys import seeded, tiny_config


def test_length_in_iterations_or_epochs():
    assert total_steps(tiny_config(iterations=7), images=100) == 7
    assert total_steps(tiny_config(iterations=None, epochs=2.5, batch_size=10), images=100) == 25
    assert total_steps(tiny_config(iterations=None, epochs=0.01, batch_size=10), images=100) == 1


def test_one_cycle_at_its_corners():
    config = tiny_config(schedule="one-cycle", learning_rate=0.4, warmup=0.2)
    corners = {0.0: 0.0, 0.1: 0.2, 0.2: 0.4, 0.6: 0.2, 1.0: 0.0}
    for progress, rate in corners.items():
        assert schedule(config, progress) == pytest.approx(rate)
    rates = [schedule(config, step / 1000) for step in range(1000)]
    assert rates[:201] == sorted(rates[:201])
    assert rates[200:] == sorted(rates[200:], reverse=True)


def test_one_cycle_without_warmup_begins_at_its_peak():
    assert schedule(tiny_config(schedule="one-cycle", warmup=0.0, learning_rate=0.4), 0.0) == 0.4


@pytest.mark.parametrize(
    ("progress", "factor"),
    [
        (0, 1),
        (0.333, 1),
        (1 / 3, 0.06),
        (0.666, 0.06),
        (2 / 3, 0.012),
        (0.833, 0.012),
        (5 / 6, 0.0024),
        (0.999, 0.0024),
    ],
)
def test_steps_at_their_corners(progress, factor):
    assert schedule(tiny_config(schedule="steps", learning_rate=0.1), float(progress)) == pytest.approx(0.1 * factor)


def model(network: str = "c128f", seed: int = 0) -> StageOne:
    return StageOne(*build(tiny_config(architecture=NetworkConfig(network, width=2), seed=seed), 3, (16, 16)))


RESNET_LAYERS = ("conv1", "conv2", "conv3", "shortcut")


@pytest.mark.parametrize(("network", "layers"), [("resnet12", RESNET_LAYERS), ("c128f", ("conv1",))])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_only_convolutions_and_class_weights_decay(network, layers, optimizer):
    stage = model(network)
    decayed, free = build_optimizer(tiny_config(optimizer=optimizer, weight_decay=0.1), stage).param_groups
    names = {id(weight): name for name, weight in stage.named_parameters()}
    expected = {f"network.blocks.{block}.{layer}.weight" for block in range(4) for layer in layers}
    assert {names[id(weight)] for weight in decayed["params"]} == expected | {"classifier.class_weights"}
    assert len(decayed["params"]) + len(free["params"]) == len(names)
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)


def descend(stage: StageOne, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        optimizer.zero_grad()
        images = torch.randn(4, 3, 16, 16, generator=seeded(step))
        classification_loss(stage(images).classes, torch.tensor([0, 1, 2, 0])).backward()
        optimizer.step()


def stored(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """As a checkpoint gives them back."""
    return {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_loaded_state_goes_on_bit_by_bit(optimizer):
    config = tiny_config(optimizer=optimizer, learning_rate=0.01)
    first, second = model("resnet12"), model("resnet12", seed=1)
    before, after = build_optimizer(config, first), build_optimizer(config, second)
    descend(first, before, range(3))
    second.load_state_dict(stored(first.state_dict()))
    load_optimizer(after, {**stored(optimizer_tensors(before)), "network.something": torch.zeros(1)})
    descend(first, before, range(3, 6))
    descend(second, after, range(3, 6))
    for (name, one), other in zip(first.named_parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other), name


def test_sgd_is_nesterov_with_momentum():
    group = build_optimizer(dataclasses.replace(tiny_config(), optimizer="sgd"), model()).param_groups[0]
    assert group["nesterov"]
    assert group["momentum"] == 0.9
