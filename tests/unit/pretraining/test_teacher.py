import dataclasses

import pytest
import torch

from implanting.base import load_base
from implanting.config import Pooling
from implanting.errors import ConfigError
from implanting.pretraining import prepare, pretrain
from implanting.pretraining.resuming import resume
from implanting.pretraining.teacher import soft_labels, targets
from rounding import assert_near
from toys import coloured, tiny_config

BASE = coloured(classes=3, per_class=4)
CPU = torch.device("cpu")


@pytest.mark.parametrize("pooling", ["dense", "gap", "flatten"])
def test_a_teacher_answers_as_it_classifies_image_and_mirror(tmp_path, pooling: Pooling):
    teacher = pretrain(tiny_config(pooling=pooling), BASE, None, tmp_path / "teacher.safetensors", device=CPU)
    soft = soft_labels(teacher, BASE)
    assert teacher.classifier is not None
    for image, given in zip(BASE.images, soft, strict=True):
        both = torch.stack([image, image.flip(1)])
        with torch.no_grad():
            scores = teacher.classifier(teacher.network(teacher.preprocessing.normalisation(both)))
        assert_near(given, scores.softmax(-1).mean((0, 1)), scale=1)


def test_images_that_are_never_mirrored_are_not_mirrored_for_the_teacher(tmp_path):
    path = tmp_path / "teacher.safetensors"
    teacher = pretrain(tiny_config(), BASE, None, path, device=CPU)
    upright = dataclasses.replace(tiny_config().augment, flip=False)
    run = prepare(tiny_config(teacher=str(path), augment=upright), BASE, None, CPU)
    run.ask_teacher()
    assert teacher.classifier is not None
    with torch.no_grad():
        scores = teacher.classifier(teacher.network(teacher.preprocessing.normalisation(BASE.images)))
    assert_near(run.soft, scores.softmax(-1).mean(1), scale=1)
    assert (run.soft - soft_labels(teacher, BASE)).abs().max() > 1e-4


def test_a_teacher_must_be_finished(tmp_path):
    path, left = tmp_path / "teacher.safetensors", iter([False, True])
    pretrain(tiny_config(), BASE, None, path, device=CPU, stop=lambda: next(left))
    with pytest.raises(ConfigError, match=r"`teacher`: the training of .* is not finished"):
        prepare(tiny_config(teacher=str(path)), BASE, None, CPU)


def test_a_finished_run_does_not_ask_its_teacher_again(tmp_path):
    settings, out = tiny_config(teacher=str(tmp_path / "teacher.safetensors")), tmp_path / "pupil.safetensors"
    pretrain(tiny_config(), BASE, None, tmp_path / "teacher.safetensors", device=CPU)
    pretrain(settings, BASE, None, out, device=CPU)
    asked: list[str] = []

    def progress(items, doing, _total):
        asked.append(doing)
        return items

    pretrain(settings, BASE, None, out, device=CPU, resume=True, progress=progress)
    assert asked == []


def test_a_teacher_of_other_classes_is_refused(tmp_path):
    teacher = pretrain(tiny_config(), BASE, None, tmp_path / "teacher.safetensors", device=CPU)
    with pytest.raises(ConfigError, match=r"`teacher`: .* was not trained on the classes of shades"):
        soft_labels(teacher, coloured(classes=3, prefix="shade"))


def test_targets_mix_labels_and_answers():
    soft = torch.tensor([[0.2, 0.8], [0.5, 0.5]])
    mixed = targets(torch.tensor([0, 1]), soft, 0.5)
    torch.testing.assert_close(mixed, torch.tensor([[0.6, 0.4], [0.25, 0.75]]))


def test_a_share_of_nothing_is_training_without_a_teacher(tmp_path):
    alone = pretrain(tiny_config(), BASE, None, tmp_path / "alone.safetensors", device=CPU)
    settings = tiny_config(teacher=str(tmp_path / "alone.safetensors"), teacher_share=0.0)
    taught = pretrain(settings, BASE, None, tmp_path / "taught.safetensors", device=CPU)
    for name, weight in alone.network.state_dict().items():
        assert_near(taught.network.state_dict()[name], weight)


def test_a_network_learns_what_its_teacher_says(tmp_path):
    """With labels shuffled and the teacher trusted alone, the answers come to resemble the teacher's."""
    teacher = pretrain(tiny_config(iterations=60), BASE, None, tmp_path / "teacher.safetensors", device=CPU)
    soft = soft_labels(teacher, BASE)
    settings = tiny_config(iterations=60, teacher=str(tmp_path / "teacher.safetensors"), teacher_share=1.0, seed=1)
    wrong = BASE.labels.roll(1)
    pupil = pretrain(
        settings, dataclasses.replace(BASE, labels=wrong), None, tmp_path / "pupil.safetensors", device=CPU
    )
    agreeing = (soft_labels(pupil, BASE).argmax(1) == soft.argmax(1)).float().mean()
    assert agreeing > 0.8
    assert load_base(tmp_path / "pupil.safetensors").description is not None


def test_a_run_goes_on_with_the_same_teacher_only(tmp_path):
    teacher, out = tmp_path / "teacher.safetensors", tmp_path / "pupil.safetensors"
    settings = tiny_config(teacher=str(teacher))
    pretrain(tiny_config(), BASE, None, teacher, device=CPU)
    begun = prepare(settings, BASE, None, CPU)
    begun.save(out)
    resume(prepare(settings, BASE, None, CPU), out)
    pretrain(tiny_config(seed=1), BASE, None, teacher, device=CPU, overwrite=True)
    other = prepare(settings, BASE, None, CPU)
    with pytest.raises(ConfigError, match=r"`teacher` .*teacher\.safetensors is another network now .*another `out`"):
        resume(other, out)
    begun.description = dataclasses.replace(begun.description, teacher_fingerprint=None)  # as earlier versions wrote
    begun.save(out)
    resume(other, out)
