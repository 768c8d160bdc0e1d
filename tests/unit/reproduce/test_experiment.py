import dataclasses

import pytest
import torch

from implanting.config import DataConfig, PretrainConfig
from implanting.datasets import ImageSet, read_class_lists
from implanting.reproduce import paper_data
from implanting.reproduce.experiment import Material, why_not_the_papers


def images(names, name="folder train", per_class=600) -> ImageSet:
    labels = torch.arange(len(names)).repeat(per_class)
    return ImageSet(torch.zeros(len(labels), 1, 1, 3, dtype=torch.uint8), labels, tuple(names), name, "none")


FC100 = read_class_lists("fc100")
MINI = read_class_lists("miniimagenet")
NUMBERS = [str(number) for number in range(60)]


@pytest.mark.parametrize(
    ("image_set", "known"),
    [
        (images(FC100["train"], per_class=2), "FC100"),
        (images(FC100["val"][:5], per_class=2), "FC100"),
        (images(NUMBERS, "FC100 train", per_class=2), "FC100"),
        (images(MINI["test"], per_class=2), "miniImageNet"),
        (images(["oak", "ash"], per_class=2), None),
        (images([*FC100["train"], "oak"], per_class=2), None),
    ],
)
def test_data_is_known_by_its_name_or_its_classes(image_set, known):
    assert paper_data(image_set) == known


def test_images_held_out_of_training_are_not_among_the_trained():
    base, config = images(["oak", "ash"], per_class=6), PretrainConfig(epochs=1.0, data=DataConfig(hold_out=2), seed=3)
    material = Material("cpu", False, config, base, None, base, "val")
    held_out = base.choose_held_out(2, 3)
    assert len(held_out) == 4
    assert material.trained.fingerprint == base.without(held_out).fingerprint
    everything = dataclasses.replace(material, stage1=dataclasses.replace(config, data=DataConfig()))
    assert everything.trained is base


def test_the_papers_own_data():
    assert why_not_the_papers("FC100", images(FC100["train"]), images(FC100["test"]), "test") is None


@pytest.mark.parametrize(
    ("table", "base", "novel", "split", "reason"),
    [
        ("miniImageNet", images(FC100["train"]), images(FC100["test"]), "test", "on miniImageNet, and this is FC100"),
        ("FC100", images(["oak", "ash"]), images(["elm"]), "test", "this is folder train"),
        ("FC100", images(FC100["train"][:5]), images(FC100["test"]), "test", "60 base classes, and here there are 5"),
        ("FC100", images(FC100["train"]), images(FC100["test"], per_class=30), "test", "a class has 30"),
        ("FC100", images(FC100["train"]), images(FC100["val"]), "val", "its split val"),
    ],
)
def test_what_is_not_the_papers_data(table, base, novel, split, reason):
    assert reason in why_not_the_papers(table, base, novel, split)
