import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from implanting.base import BaseNetwork, Validation, load_base
from implanting.base.base_network import weights
from implanting.config import DataConfig, PretrainConfig
from implanting.errors import CheckpointError, ConfigError, ImageTooSmall
from implanting.networks import Network
from implanting.pretraining import Event, Started, Stepped, pretrain
from implanting.pretraining.events import NAMES
from implanting.pretraining.optimisation import schedule
from implanting.runtime import read_checkpoint, write_checkpoint
from toys import coloured, same, tiny_config

CPU = torch.device("cpu")
BASE = coloured(classes=3, per_class=8)
VALIDATION = coloured(classes=3, per_class=20, seed=1, prefix="shade")
OPTIMIZERS = {"sgd": 0.05, "adam": 0.01}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "base.safetensors"


def run(out: Path, config: PretrainConfig, images=BASE, validation=None, **how: Any) -> BaseNetwork:
    return pretrain(config, images, validation, out, device=CPU, **how)


def state(base: BaseNetwork) -> dict[str, Tensor]:
    return weights(base.network, base.classifier)


class Stop:
    """Asks for a stop after some steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def __call__(self) -> bool:
        self.left -= 1
        return self.left == 0


def events(out: Path, config: PretrainConfig, **how: Any) -> list[Event]:
    seen: list[Event] = []
    run(out, config, observe=seen.append, **how)
    return seen


@pytest.mark.parametrize("pooling", ["dense", "gap", "gmp", "flatten"])
def test_training_lowers_the_loss_and_learns_tau(out, pooling):
    seen = events(out, tiny_config(iterations=40, batch_size=12, pooling=pooling, tau=5.0, learning_rate=0.05))
    steps = [event for event in seen if isinstance(event, Stepped)]
    losses = [event.loss for event in steps]
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])
    assert steps[-1].tau != 5.0


def test_identical_runs_give_identical_weights_and_seeds_differ(tmp_path):
    first, again, other = (
        run(tmp_path / f"{number}.safetensors", tiny_config(seed=seed)) for number, seed in enumerate((1, 1, 2))
    )
    assert same(state(first), state(again))
    assert not same(state(first), state(other))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("stopped", [1, 3, 5])
def test_a_stopped_run_goes_on_to_bit_identical_weights(tmp_path, optimizer, stopped):
    config = tiny_config(optimizer=optimizer, learning_rate=OPTIMIZERS[optimizer])
    whole = run(tmp_path / "whole.safetensors", config)
    half = run(tmp_path / "half.safetensors", config, stop=Stop(stopped))
    assert half.description.training.step == stopped
    assert not half.description.training.finished
    resumed = run(tmp_path / "half.safetensors", config, resume=True)
    assert resumed.description.training.finished
    assert same(state(resumed), state(whole))
    assert not same(state(half), state(whole))


def test_the_checkpoint_is_the_base_that_is_given_back(out):
    base = run(out, tiny_config())
    loaded = load_base(out)
    assert same(state(loaded), state(base))
    assert loaded.description == base.description


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_only_an_unfinished_run_keeps_its_optimiser(out, optimizer):
    def kept() -> bool:
        return any(name.startswith("optimizer.") for name in read_checkpoint(out, "base")[1])

    config = tiny_config(optimizer=optimizer)
    run(out, config, stop=Stop(2))
    assert kept()
    run(out, config, resume=True)
    assert not kept()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.2}, "`learning_rate` was 0.1 and is 0.2"),
        ({"iterations": 7}, "`iterations` was 6 and is 7"),
        ({"data": DataConfig(hold_out=1)}, "`hold_out` was 0 and is 1"),
    ],
)
def test_resuming_with_other_settings_is_refused(out, change, message):
    run(out, tiny_config(), stop=Stop(2))
    with pytest.raises(ConfigError, match=message):
        run(out, tiny_config(**change), resume=True)


def test_going_on_with_a_setting_that_is_gone_is_refused_but_loading_is_not(out):
    run(out, tiny_config(), stop=Stop(2))
    document, tensors = read_checkpoint(out, "base")
    document["config"]["label_smoothing"] = 0.1
    write_checkpoint(out, "base", document, tensors)
    assert load_base(out).description.retired == {"label_smoothing": 0.1}
    with pytest.raises(CheckpointError, match=r"`label_smoothing` 0\.1.* version 0"):
        run(out, tiny_config(), resume=True)


def test_resuming_on_other_data_is_refused(out):
    run(out, tiny_config(), stop=Stop(2))
    with pytest.raises(ConfigError, match=r"other images \(.* of fingerprint \w{8}, here \w{8}\)"):
        run(out, tiny_config(), images=coloured(seed=1), resume=True)


def test_what_changes_no_weight_may_change_when_resuming(out):
    run(out, tiny_config(), stop=Stop(2))
    changed = tiny_config(save_every=1.0, validation_tasks=5, validate_every=0.0)
    base = run(out, changed, validation=VALIDATION, resume=True)
    assert [record.step for record in base.description.training.validation] == [6]


def test_without_a_place_nothing_is_saved(out):
    kept, unkept = run(out, tiny_config()), pretrain(tiny_config(), BASE, None, None, device=CPU)
    assert same(state(unkept), state(kept))
    assert unkept.description.training.finished
    assert list(out.parent.iterdir()) == [out]


def test_validation_classes_that_cannot_serve_are_told_once(out):
    few = coloured(per_class=5, prefix="shade")
    seen = events(out, tiny_config(validation_tasks=5), validation=few)
    assert seen[0] == Started(0, 6, 24, "a class of shades has 5 images; 5-shot tasks need more")
    assert not any(isinstance(event, Validation) for event in seen)


def test_resuming_what_is_finished_changes_nothing(out):
    base = run(out, tiny_config())
    assert same(state(run(out, tiny_config(), resume=True)), state(base))


def test_a_finished_checkpoint_is_rewritten_only_for_a_calibration_it_lacks(out):
    config = tiny_config(validation_tasks=5)
    base = run(out, config)
    assert base.description.training.calibration is None
    before = out.read_bytes()
    run(out, config, resume=True)
    assert out.read_bytes() == before
    added = run(out, config, validation=VALIDATION, resume=True)
    assert added.description.training.calibration is not None
    assert load_base(out).description.training.calibration == added.description.training.calibration
    assert same(state(load_base(out)), state(base))
    calibrated, seen = out.stat().st_mtime_ns, events(out, config, validation=VALIDATION, resume=True)
    assert (out.stat().st_mtime_ns, seen) == (calibrated, [])


def test_resuming_what_was_never_begun_begins_it(out):
    assert run(out, tiny_config(), resume=True).description.training.finished


def test_validation_never_changes_the_weights(tmp_path):
    config = tiny_config(validation_tasks=10, validate_every=1.0)
    with_validation = run(tmp_path / "with.safetensors", config, validation=VALIDATION)
    without = run(tmp_path / "without.safetensors", config)
    assert same(state(with_validation), state(without))
    records = with_validation.description.training.validation
    assert [record.step for record in records] == [3, 6]  # an epoch is 24 images, 3 steps
    assert all(record.tasks == 10 and 0 <= record.mean <= 1 for record in records)


def test_held_out_images_change_nothing(tmp_path):
    config = tiny_config(data=DataConfig(hold_out=2))
    base = run(tmp_path / "one.safetensors", config)
    blackened = BASE.images.clone()
    blackened[list(base.description.held_out)] = 0
    again = run(tmp_path / "two.safetensors", config, images=dataclasses.replace(BASE, images=blackened))
    assert again.description.held_out == base.description.held_out
    assert same(state(again), state(base))
    seen = blackened.clone()
    seen[next(number for number in range(24) if number not in base.description.held_out)] = 0
    assert not same(
        state(run(tmp_path / "three.safetensors", config, dataclasses.replace(BASE, images=seen))), state(base)
    )


def test_events_of_a_run(out):
    seen = events(out, tiny_config(iterations=3), stop=Stop(2))
    assert [(NAMES[type(event)], event.step) for event in seen] == [
        ("started", 0), ("step", 1), ("step", 2), ("stopped", 2)
    ]  # fmt: skip
    seen = events(out, tiny_config(iterations=3), resume=True)
    assert [(NAMES[type(event)], event.step) for event in seen] == [("started", 2), ("step", 3), ("finished", 3)]


def test_the_learning_rate_of_a_step_is_the_schedule_at_its_middle(out):
    config = tiny_config(iterations=4)
    rates = [event.learning_rate for event in events(out, config) if isinstance(event, Stepped)]
    assert rates == [schedule(config, progress) for progress in (1 / 8, 3 / 8, 5 / 8, 7 / 8)]


def test_a_run_saves_on_its_way(out):
    seen = []

    def observe(event: Event) -> None:
        if isinstance(event, Stepped) and out.exists():
            seen.append(read_checkpoint(out, "base")[0]["training"]["step"])

    run(out, tiny_config(save_every=0.0), observe=observe)
    assert seen == [1, 2, 3, 4, 5]


def test_an_existing_file_is_not_overwritten(out):
    out.write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        run(out, tiny_config())
    assert out.read_text() == "mine"
    run(out, tiny_config(), overwrite=True)
    assert load_base(out).description.training.finished


def test_the_first_part_of_training_sees_shrunken_images(tmp_path, monkeypatch):
    sizes = []
    monkeypatch.setattr(
        "implanting.networks.resnet12.Network.forward",
        lambda self, x, forward=Network.forward: (sizes.append(x.shape[-1]), forward(self, x))[1],
    )
    images = coloured(classes=3, per_class=8, size=32)
    run(tmp_path / "base.safetensors", tiny_config(shrink_size=16, shrink_share=0.5, iterations=6), images)
    assert sizes == [16] * 3 + [32] * 3


def test_a_size_that_leaves_no_location_is_refused_before_training(out):
    with pytest.raises(ImageTooSmall, match="8 x 8"):
        run(out, tiny_config(shrink_size=8))
