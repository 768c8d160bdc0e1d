"""An experiment before it is run, and the notes that are needed to read its figures."""

from collections.abc import Iterator
from dataclasses import dataclass

from implanting.config import PretrainConfig
from implanting.datasets import ImageSet, read_class_lists
from implanting.fewshot import mean_of
from implanting.implants import WEIGHT_DECAY
from implanting.reproduce.paper import IMPLANT_TASKS
from implanting.reproduce.running import Trials
from implanting.reproduce.settings import Setting, paper_implants
from implanting.reproduce.tables import DataName, Table

MARK = "†"
"""Marks differences from the paper's figures if the experiment is not the paper's."""


@dataclass(frozen=True)
class Material:
    """The data, and how base networks are trained on it."""

    recipe: str
    """The recipe of stage 1 and the changes to it, in words."""
    is_papers_recipe: bool
    stage1: PretrainConfig
    """The settings that all base networks share."""
    base_images: ImageSet
    validation: ImageSet | None
    novel: ImageSet
    split: str
    """The split of the novel classes."""

    @property
    def trained(self) -> ImageSet:
        """The base images without those that are held out of training."""
        hold_out = self.stage1.data.hold_out
        if not hold_out:
            return self.base_images
        return self.base_images.without(self.base_images.choose_held_out(hold_out, self.stage1.seed))

    def note(self) -> str:
        """A sentence on the training: data, recipe, seed."""
        images = self.base_images
        return (
            f"Trained on {images.name}, {len(images)} images of {len(images.class_names)} classes; "
            f"recipe {self.recipe}; one run each, seed {self.stage1.seed}."
        )


@dataclass(frozen=True)
class Experiment:
    """A table, and the data and settings with which it is run."""

    table: Table
    material: Material
    trials: Trials

    def settings(self) -> Iterator[Setting]:
        """The experiments behind all cells."""
        return (setting for settings in self.table.settings().values() for setting in settings)

    def differences(self) -> list[str]:
        """The differences from the paper's experiment, because of which figures need not agree."""
        material = self.material
        data = why_not_the_papers(self.table.data, material.base_images, material.novel, material.split)
        recipe = None if material.is_papers_recipe else "the base networks were not trained by the paper's recipe"
        return [reason for reason in (data, recipe) if reason]

    def notes(self) -> list[str]:
        """The sentences below the table."""
        config, novel = self.trials.config, self.material.novel
        texts = [
            self.material.note(),
            f"Tested on {novel.name}, {len(novel.class_names)} classes: accuracy in %, "
            f"{mean_of(config.tasks, f'{config.way}-way task')}, {config.queries} queries per class. "
            "All rows see the same tasks. Other training runs may differ by more.",
            "A/B: pooling of supports/queries; DC is dense classification, which means no pooling.",
        ]
        if any(setting.implants for setting in self.settings()):
            texts.append(_implant_note(min(config.tasks, IMPLANT_TASKS)))
        if any(setting.classes != "novel" for setting in self.settings()):
            texts.append(f"Base classes: {held_out_note(self.material.stage1.data.hold_out)}.")
        if differences := self.differences():
            texts.append(f"{MARK} Not the paper's experiment: {'; '.join(differences)}.")
        return [*texts, *([self.table.note] if self.table.note else [])]


def _implant_note(tasks: int) -> str:
    adapt = paper_implants()
    return (
        f"With implants, {tasks} of these. The paper does not give the learning rate and weight decay of stage "
        f"2; here {adapt.implant_learning_rate:g} and {WEIGHT_DECAY:g}."
    )


def held_out_note(hold_out: int) -> str:
    """Says which images of base classes are tested."""
    if hold_out:
        return f"tested on {hold_out} images of each that were held out of training (the paper had further images)"
    return "tested on the data's further images of them, which were not trained on"


BASE_CLASSES: dict[DataName, int] = {"miniImageNet": 64, "FC100": 60}
IMAGES_PER_CLASS = 600


def paper_data(images: ImageSet) -> DataName | None:
    """The paper's data set that these images belong to, by name or by classes."""
    for name in BASE_CLASSES:
        listed = {label for classes in read_class_lists(name.lower()).values() for label in classes}
        if images.name.startswith(f"{name} ") or set(images.class_names) <= listed:
            return name
    return None


def why_not_the_papers(table_data: DataName, base_images: ImageSet, novel: ImageSet, split: str) -> str | None:
    """The reason why figures on this data are not comparable with the paper's; None if they are."""
    found = paper_data(base_images)
    if found != table_data:
        return f"the paper's table is on {table_data}, and this is {found or base_images.name}"
    classes, needed = len(base_images.class_names), BASE_CLASSES[table_data]
    if classes != needed:
        return f"{table_data} has {needed} base classes, and here there are {classes}"
    smallest = min(base_images.smallest_class, novel.smallest_class)
    if smallest < IMAGES_PER_CLASS:
        return f"{table_data} has {IMAGES_PER_CLASS} images per class, and here a class has {smallest}"
    if split != "test":
        return (
            f"the paper's figures are for {table_data}'s test classes, and these are the classes of its split {split}"
        )
    return None
