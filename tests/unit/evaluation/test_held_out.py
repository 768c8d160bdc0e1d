import dataclasses

import pytest

from implanting.datasets import ImageSet
from implanting.errors import ConfigError, SplitMissing
from implanting.evaluation import extra_images, held_out_images
from toys import coloured, toy_base

TRAINED, EXTRA = coloured(), coloured(seed=1)
DESCRIBED = dataclasses.replace(toy_base().description, data_fingerprint=TRAINED.fingerprint)  # images 1 and 5 held out
ALL_TRAINED = dataclasses.replace(DESCRIBED, held_out=())


def read(split: str) -> ImageSet:
    return {"train": TRAINED, "train_phase_test": EXTRA}[split]


def without_extra(split: str) -> ImageSet:
    if split == "train_phase_test":
        raise SplitMissing("no such split")
    return read(split)


def test_images_that_training_held_out():
    held_out = held_out_images(DESCRIBED, without_extra)
    assert held_out.fingerprint == TRAINED.subset(TRAINED.labels.new_tensor([1, 5])).fingerprint


@pytest.mark.parametrize(
    ("change", "how"),
    [
        ({"data_fingerprint": "other"}, "the same classes, other images"),
        ({"data_fingerprint": "other", "image_size": (84, 84)}, "16 x 16 px, the base's had 84 x 84"),
        ({"data_fingerprint": "other", "class_names": ("oak",)}, "its 3 classes are not the base's 1"),
    ],
)
def test_held_out_images_of_other_data_are_refused(change, how):
    with pytest.raises(ConfigError, match=f"not the data that the base was trained on.*{how}"):
        held_out_images(dataclasses.replace(DESCRIBED, **{"image_size": (16, 16), **change}), read)


def test_else_the_extra_split():
    assert held_out_images(ALL_TRAINED, read) is EXTRA


def test_without_either_it_is_said_how_to_train():
    assert extra_images(DESCRIBED.class_names, without_extra) is None
    with pytest.raises(ConfigError, match="`hold_out` 100"):
        held_out_images(ALL_TRAINED, without_extra)


def test_an_extra_split_of_other_classes_is_refused():
    with pytest.raises(ConfigError, match="other classes"):
        extra_images(("oak", "ash"), read)
