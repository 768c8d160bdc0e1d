"""What `pretrain --workers auto` tries."""

import dataclasses
from pathlib import Path

from commands import write_fc100
from implanting.cli.verbs.pretrain import Pretrain, _with_image_size
from implanting.config import DataConfig, PretrainConfig


def test_a_trial_has_images_of_the_size_of_the_run(tmp_path: Path):
    stored = Pretrain(write_fc100(tmp_path), tmp_path / "base.safetensors", config=PretrainConfig(epochs=1.0))
    assert _with_image_size(stored).data.image_size == 32
    set_by_hand = dataclasses.replace(stored.config, data=DataConfig(image_size=48))
    assert _with_image_size(dataclasses.replace(stored, config=set_by_hand)).data.image_size == 48
