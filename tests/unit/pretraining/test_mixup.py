"""Images and targets that are mixed in pairs."""

import dataclasses
from pathlib import Path

import pytest
import torch

from implanting.base.base_network import weights
from implanting.dense_classification import classification_loss
from implanting.errors import ConfigError
from implanting.pretraining import prepare, pretrain
from implanting.pretraining.batches import batch
from implanting.pretraining.mixup import draw_mixture
from implanting.pretraining.rotation import rotation_loss, turn
from implanting.runtime import Stream, generator_of
from toys import coloured, same, seeded, tiny_config

CPU = torch.device("cpu")
BASE = coloured(classes=3, per_class=8)
MIXED = tiny_config(mixup=0.4)


def test_the_larger_share_is_the_images_own_and_follows_the_beta_distribution():
    drawn = [draw_mixture(8, 0.4, seeded(seed)) for seed in range(2000)]
    shares = torch.tensor([mixture.share for mixture in drawn])
    assert shares.min() >= 0.5
    # the variance of Beta(m, m) about one half is 1 / (4 (2 m + 1))
    assert (shares - 0.5).square().mean().item() == pytest.approx(1 / (4 * 1.8), rel=0.05)
    assert all(mixture.partner.sort().values.tolist() == list(range(8)) for mixture in drawn[:20])
    assert torch.stack([mixture.partner for mixture in drawn]).float().mean(0).std() < 0.2
    again = draw_mixture(8, 0.4, seeded(7))
    assert again.share == drawn[7].share
    assert torch.equal(again.partner, drawn[7].partner)


@pytest.mark.parametrize("rotation", [0.0, 0.5])
@pytest.mark.parametrize("pooling", ["dense", "gap"])
def test_the_loss_of_a_step_against_a_loop_over_pairs(rotation, pooling):
    config = dataclasses.replace(MIXED, rotation=rotation, pooling=pooling)
    run = prepare(config, BASE, None, CPU)
    if run.model.rotation is not None:
        run.model.rotation.weight.data.normal_(generator=seeded(5))
    drawn = batch(BASE, config.augment, config.batch_size, config.seed, 0)
    images, turns = turn(drawn.images, rotation, generator_of(config.seed, Stream.ROTATION, 0))
    mixture = draw_mixture(len(images), 0.4, generator_of(config.seed, Stream.MIXUP, 0))
    inputs = run.inputs(images)
    mixed = torch.stack(
        [mixture.share * inputs[i] + (1 - mixture.share) * inputs[j] for i, j in enumerate(mixture.partner)]
    )
    with torch.no_grad():
        scores = prepare(config, BASE, None, CPU).model.train()(mixed).classes
    expected = torch.tensor(0.0)
    for i, j in enumerate(mixture.partner.tolist()):
        for number, part in ((i, mixture.share), (j, 1 - mixture.share)):
            expected += part * classification_loss(scores[i : i + 1], drawn.labels[number : number + 1])
    loss, accuracy = run.train_step(run.model.train())
    if rotation:  # the figure reported is that of the classes; the turns are checked by themselves
        one_hot = torch.nn.functional.one_hot(turns, 4).float()
        said = torch.randn(len(turns), 4, generator=seeded(6))
        both = torch.stack([rotation_loss(said[i : i + 1], turns[i : i + 1]) for i in range(len(turns))]).mean()
        assert rotation_loss(said, one_hot).item() == pytest.approx(both.item(), rel=1e-5)
    assert loss.item() == pytest.approx((expected / len(images)).item(), rel=1e-4)
    right = scores.softmax(-1).mean(1).argmax(-1) == drawn.labels
    assert accuracy.item() == pytest.approx(right.float().mean().item())


@pytest.mark.parametrize("taught", [False, True])
def test_all_targets_are_mixed_alike_and_processes_share_the_batch(taught):
    run = prepare(dataclasses.replace(MIXED, rotation=0.5), BASE, None, CPU)
    images, labels = BASE.images[:8], BASE.labels[:8]
    turns = torch.arange(8) % 4
    learned = torch.rand(8, 3, generator=seeded(8)) if taught else labels
    parts = run._mixed(images, learned, turns, slice(0, 8))
    shares = [run._mixed(images, learned, turns, mine) for mine in (slice(0, 4), slice(4, 8))]
    for whole, halves in zip(parts, zip(*shares, strict=True), strict=True):
        assert torch.equal(whole, torch.cat(halves))
    mixture = draw_mixture(8, 0.4, generator_of(run.config.seed, Stream.MIXUP, 0))
    inputs, soft = run.inputs(images), learned if taught else torch.eye(3)[labels]
    for place, partner in enumerate(mixture.partner.tolist()):
        for found, values in zip(parts, (inputs, soft, torch.eye(4)[turns]), strict=True):
            expected = mixture.share * values[place] + (1 - mixture.share) * values[partner]
            assert torch.allclose(found[place], expected, atol=1e-6)


def test_a_stopped_run_with_mixed_images_goes_on_to_bit_identical_weights(tmp_path: Path):
    half, whole, left = tmp_path / "half.safetensors", tmp_path / "whole.safetensors", iter([False, False, True])
    pretrain(MIXED, BASE, None, half, device=CPU, stop=lambda: next(left))
    resumed = pretrain(MIXED, BASE, None, half, device=CPU, resume=True)
    finished = pretrain(MIXED, BASE, None, whole, device=CPU)
    assert same(weights(resumed.network, resumed.classifier), weights(finished.network, finished.classifier))
    plain = pretrain(tiny_config(), BASE, None, None, device=CPU)
    assert not same(weights(plain.network, plain.classifier), weights(finished.network, finished.classifier))


def test_resuming_with_another_strength_and_other_methods_are_refused(tmp_path: Path):
    out, left = tmp_path / "base.safetensors", iter([False, True])
    pretrain(MIXED, BASE, None, out, device=CPU, stop=lambda: next(left))
    with pytest.raises(ConfigError, match=r"`mixup` was 0\.4 and is 0\.2"):
        pretrain(dataclasses.replace(MIXED, mixup=0.2), BASE, None, out, device=CPU, resume=True)
    with pytest.raises(ConfigError, match=r"`mixup` is -1\.0; it must be from 0 to 10"):
        tiny_config(mixup=-1.0)
    with pytest.raises(ConfigError, match="`mixup` is for `method` cosine, and this is pn"):
        tiny_config(mixup=0.5, method="pn", pooling="gap")
