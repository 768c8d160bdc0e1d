import dataclasses

import pytest
import torch

from implanting.config import AugmentConfig, DataConfig
from implanting.errors import ConfigError, DataError
from implanting.images import Normalisation
from implanting.pretraining import Output, prepare
from toys import coloured, tiny_config

CPU = torch.device("cpu")


def test_output_needs_a_folder(tmp_path):
    with pytest.raises(ConfigError, match="there is no folder"):
        Output(tmp_path / "none" / "base.safetensors")


def test_output_is_not_lost(tmp_path):
    out = tmp_path / "base.safetensors"
    Output(out)
    out.touch()
    with pytest.raises(ConfigError, match=r"exists already.*`resume`.*`overwrite`"):
        Output(out)
    Output(out, resume=True)
    Output(out, overwrite=True)
    with pytest.raises(ConfigError, match="choose one"):
        Output(out, resume=True, overwrite=True)


def test_the_batch_must_be_shared_evenly(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ConfigError, match="`batch_size` 8 cannot be shared by 3"):
        prepare(tiny_config(batch_size=8), coloured(), None, CPU)


def test_the_crop_must_not_be_wider_than_the_image():
    with pytest.raises(ConfigError, match="`crop_padding` 16 must be below the image's 16 px"):
        prepare(tiny_config(augment=AugmentConfig(crop_padding=16)), coloured(size=16), None, CPU)


def test_validation_classes_must_be_new():
    with pytest.raises(DataError, match="share 3 classes"):
        prepare(tiny_config(), coloured(), coloured(), CPU)


def test_hold_out_leaves_out_exactly_the_recorded_images():
    images = coloured(classes=3, per_class=8)
    run = prepare(tiny_config(data=DataConfig(hold_out=2)), images, None, CPU)
    held = run.description.held_out
    kept = [number for number in range(24) if number not in held]
    assert torch.bincount(images.labels[list(held)]).tolist() == [2, 2, 2]
    assert torch.equal(run.images.images, images.images[kept])
    assert torch.equal(run.images.labels, images.labels[kept])
    assert run.description.normalisation == Normalisation.of(images.images[kept])


def test_nothing_is_held_out_unless_asked():
    images = coloured()
    run = prepare(tiny_config(), images, None, CPU)
    assert run.description.held_out == ()
    assert len(run.images) == len(images)


def test_validation_draws_from_the_first_images_of_each_class():
    few = {"validation_tasks": 5}
    validation = coloured(classes=3, per_class=110, prefix="shade")
    first = validation.subset(torch.cat([indices[:100] for indices in validation.indices_by_class()]))
    run, expected = (prepare(tiny_config(**few), coloured(), images, CPU) for images in (validation, first))
    result, same = (each.validation(run.model.network, 10.0) for each in (run, expected))
    assert result.per_task.tolist() == same.per_task.tolist()
    assert (result.config.way, result.config.shot, result.config.queries, result.config.tasks) == (3, 5, 15, 5)
    none = dataclasses.replace(tiny_config(), validation_tasks=0)
    assert prepare(none, coloured(), validation, CPU).validation is None


def test_small_validation_classes_make_small_tasks_or_none():
    config = tiny_config(validation_tasks=5)
    run = prepare(config, coloured(), coloured(classes=2, per_class=8, prefix="shade"), CPU)
    assert run.validation(run.model.network, 10.0).config.queries == 3
    for too_little in (coloured(classes=1, per_class=30, prefix="shade"), coloured(per_class=5, prefix="shade")):
        run = prepare(config, coloured(), too_little, CPU)
        assert run.validation is None
        assert "tasks need" in run.unvalidated


@pytest.mark.parametrize(("name", "said"), [("base.png", "ends in .safetensors"), ("folder.safetensors", "folder")])
def test_output_must_be_a_file_of_its_own_kind(tmp_path, name, said):
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(ConfigError, match=said):
        Output(tmp_path / name, overwrite=True)


def test_one_base_class_is_not_enough():
    with pytest.raises(ConfigError, match="one class"):
        prepare(tiny_config(), coloured(classes=1), None, CPU)
