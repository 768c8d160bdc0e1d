"""Mixed precision: what is computed in bf16, and what is not."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from implanting.base import load_base
from implanting.base.base_network import weights
from implanting.config import EpisodeConfig, NetworkConfig
from implanting.errors import ConfigError
from implanting.pretraining import gain_of_bf16, prepare, pretrain
from implanting.pretraining.precision import uses_bf16
from implanting.pretraining.teacher import soft_labels
from toys import coloured, same, seeded, tiny_config

CPU = torch.device("cpu")
BASE = coloured(classes=3, per_class=8)
MIXED = tiny_config(precision="bf16", learning_rate=0.02)
SINGLE = dataclasses.replace(MIXED, precision="single")
SIGNIFICANT = 2**-8
"""The relative rounding of a number in bf16."""


def model_of(config):
    """The model of a run at step 0, in training mode."""
    return prepare(config, BASE, None, CPU).model.train()


def test_a_processor_computes_in_bf16_only_if_asked():
    assert [uses_bf16(precision, CPU) for precision in ("auto", "single", "bf16")] == [False, False, True]


@pytest.mark.parametrize("method", ["cosine", "pn", "tadam"])
@pytest.mark.parametrize("conditioned", [False, True])
def test_maps_are_rounded_in_training_only_and_phi_and_weights_stay_single(method, conditioned):
    images = torch.randn(8, 3, 16, 16, generator=seeded(1)).contiguous(memory_format=torch.channels_last)
    changes = {"method": method, "pooling": "gap", "episode": EpisodeConfig(train_way=3, train_shot=2, train_queries=2)}
    mixed, single = (model_of(dataclasses.replace(config, **changes)).network for config in (MIXED, SINGLE))
    assert same(mixed.state_dict(), single.state_dict())
    rounded, exact = (
        network.changed(images, lambda maps: 2 * maps) if conditioned else network(images)
        for network in (mixed, single)
    )
    assert rounded.dtype == exact.dtype == torch.float32
    assert SIGNIFICANT / 10 < (rounded - exact).norm() / exact.norm() < 10 * SIGNIFICANT
    mixed.load_state_dict(single.state_dict())  # statistics of batch norm
    assert torch.equal(mixed.eval()(images), single.eval()(images))
    assert {weight.dtype for weight in mixed.parameters()} == {torch.float32}


def test_gradients_point_where_those_of_single_precision_do():
    images, gradients = coloured(classes=3, per_class=8, size=32), []
    for config in (MIXED, SINGLE):
        wide = dataclasses.replace(config, architecture=NetworkConfig(width=8), batch_size=24)
        run = prepare(wide, images, None, CPU)
        run.train_step(run.model.train())
        gradients.append(torch.cat([weight.grad.flatten() for weight in run.model.parameters()]))
    mixed, single = gradients
    assert mixed.dtype == torch.float32
    assert not torch.equal(mixed, single)
    assert torch.cosine_similarity(mixed, single, dim=0) > 0.97


def test_a_stopped_run_in_bf16_goes_on_to_bit_identical_weights(tmp_path: Path):
    half, whole, left = tmp_path / "half.safetensors", tmp_path / "whole.safetensors", iter([False, False, True])
    pretrain(MIXED, BASE, None, half, device=CPU, stop=lambda: next(left))
    resumed = pretrain(MIXED, BASE, None, half, device=CPU, resume=True)
    finished = pretrain(MIXED, BASE, None, whole, device=CPU)
    assert same(weights(resumed.network, resumed.classifier), weights(finished.network, finished.classifier))
    assert not same(resumed.network.state_dict(), pretrain(SINGLE, BASE, None, None, device=CPU).network.state_dict())
    assert load_base(whole).network.trains_in_bf16 is False


def test_resuming_in_another_precision_is_refused(tmp_path: Path):
    out, left = tmp_path / "base.safetensors", iter([False, True])
    pretrain(MIXED, BASE, None, out, device=CPU, stop=lambda: next(left))
    with pytest.raises(ConfigError, match="`precision` was bf16 and is single"):
        pretrain(SINGLE, BASE, None, out, device=CPU, resume=True)


@pytest.mark.parametrize("method", ["maml", "gidaris"])
def test_methods_that_would_not_gain_are_refused(method):
    with pytest.raises(ConfigError, match=f"`precision` bf16 is for `method` cosine, pn, tadam, and this is {method}"):
        tiny_config(precision="bf16", method=method, pooling="flatten", start="a.safetensors")


def test_a_teacher_answers_in_bf16_as_in_single_precision_but_for_rounding():
    teacher = pretrain(tiny_config(iterations=20), BASE, None, None, device=CPU)
    mixed, single = soft_labels(teacher, BASE, precision="bf16"), soft_labels(teacher, BASE)
    largest = (mixed - single).abs().max()
    assert SIGNIFICANT / 100 < largest < 10 * SIGNIFICANT  # the lower bound: folding alone changes them by less


def test_a_network_that_does_not_train_in_bf16_computes_in_the_precision_of_its_caller():
    images = torch.randn(8, 3, 16, 16, generator=seeded(1))
    network = model_of(SINGLE).network.eval()
    seen = []
    network.blocks[0].conv1.register_forward_hook(lambda _, __, maps: seen.append(maps.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        network(images)
    network(images)
    assert seen == [torch.bfloat16, torch.float32]


def test_the_gain_is_measured():
    gain = gain_of_bf16()
    assert gain > 0
    assert math.isfinite(gain)
