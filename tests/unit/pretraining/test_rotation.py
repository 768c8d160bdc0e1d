"""Images that are turned while a head learns by how much."""

import dataclasses
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from implanting.base.base_network import weights
from implanting.errors import ConfigError
from implanting.pretraining import prepare, pretrain
from implanting.pretraining.rotation import RotationHead, rotation_loss, turn
from implanting.runtime import read_checkpoint
from toys import coloured, same, seeded, tiny_config

CPU = torch.device("cpu")
BASE = coloured(classes=3, per_class=8)
IMAGES = torch.randint(0, 256, (400, 6, 6, 3), dtype=torch.uint8, generator=seeded(3))
TURNED = tiny_config(rotation=0.5)


def by_hand(image, quarters):
    """Quarter turns one after the other: the last column becomes the first row."""
    for _ in range(quarters):
        image = image.transpose(0, 1).flip(0)
    return image


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_a_share_of_the_images_is_turned_and_the_turns_are_known(share):
    turned, turns = turn(IMAGES, share, seeded(1))
    assert all(torch.equal(new, by_hand(old, int(n))) for new, old, n in zip(turned, IMAGES, turns, strict=True))
    assert (turns > 0).float().mean().item() == pytest.approx(share, abs=0.08)
    if share == 1.0:
        assert turns.bincount(minlength=4)[1:].min() > 100  # of 400, a third each
    assert torch.equal(turns, turn(IMAGES, share, seeded(1)).turns)


def test_the_head_sees_directions_and_its_loss_is_half_a_cross_entropy():
    head, maps, turns = RotationHead(5), torch.randn(6, 5, 2, 3, generator=seeded(2)), torch.arange(6) % 4
    assert head(maps).abs().max() == 0  # no answer is preferred before training
    head.weight.data, head.bias.data = torch.randn(4, 5, generator=seeded(4)), torch.randn(4, generator=seeded(5))
    for scores, one in zip(head(maps), maps, strict=True):
        mean = one.flatten(1).mean(1)
        assert torch.allclose(scores, head.weight @ (10 * mean / mean.norm()) + head.bias, atol=1e-5)
    assert torch.allclose(head(7 * maps), head(maps), atol=1e-4)
    assert rotation_loss(head(maps), turns).item() == pytest.approx(0.5 * F.cross_entropy(head(maps), turns).item())


def test_the_head_learns_and_shapes_the_network():
    run = prepare(TURNED, BASE, None, CPU)
    for _ in range(6):
        run.train_step(run.model.train())
    assert run.model.rotation.weight.abs().max() > 0
    run.optimizer.zero_grad()
    images = run.inputs(BASE.images)
    rotation_loss(run.model(images).turns, torch.arange(len(images)) % 4).backward()  # this part of the loss alone
    assert run.model.network.blocks[0].conv1.weight.grad.abs().max() > 0
    assert run.model.classifier.class_weights.grad is None
    assert prepare(tiny_config(), BASE, None, CPU).model.rotation is None


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_stopped_run_with_turned_images_goes_on_to_bit_identical_weights(tmp_path: Path, optimizer):
    config = dataclasses.replace(TURNED, optimizer=optimizer, learning_rate=0.02)
    half, whole, left = tmp_path / "half.safetensors", tmp_path / "whole.safetensors", iter([False, False, True])
    pretrain(config, BASE, None, half, device=CPU, stop=lambda: next(left))
    assert any(name.startswith("rotation.") for name in read_checkpoint(half, "base")[1])
    resumed = pretrain(config, BASE, None, half, device=CPU, resume=True)
    finished = pretrain(config, BASE, None, whole, device=CPU)
    assert same(weights(resumed.network, resumed.classifier), weights(finished.network, finished.classifier))
    assert not any(name.startswith("rotation.") for name in read_checkpoint(whole, "base")[1])


def test_resuming_with_another_share_is_refused(tmp_path: Path):
    out, left = tmp_path / "base.safetensors", iter([False, True])
    pretrain(TURNED, BASE, None, out, device=CPU, stop=lambda: next(left))
    with pytest.raises(ConfigError, match=r"`rotation` was 0\.5 and is 0\.25"):
        pretrain(dataclasses.replace(TURNED, rotation=0.25), BASE, None, out, device=CPU, resume=True)


def test_what_cannot_be_turned_is_refused():
    with pytest.raises(ConfigError, match=r"`rotation` is 2\.0; it must be from 0 to 1"):
        tiny_config(rotation=2.0)
    with pytest.raises(ConfigError, match="`rotation` is for `method` cosine, and this is pn"):
        tiny_config(rotation=0.5, method="pn", pooling="gap")
    oblong = dataclasses.replace(BASE, images=BASE.images[:, :, 1:])
    with pytest.raises(ConfigError, match="`rotation` needs square images, and these have 15 x 16 px"):
        prepare(TURNED, oblong, None, CPU)
