"""The base networks that a table needs: their settings, and which of them a folder already holds."""

import dataclasses
from pathlib import Path

from implanting.base import read_base
from implanting.config import DataConfig, PretrainConfig, RecipeChanges
from implanting.datasets import ImageSet
from implanting.pretraining import RECIPES, RecipeName, check_same, with_method
from implanting.reproduce.settings import Stage1
from implanting.reproduce.tables import DataName

HOLD_OUT = 100
"""Images of each base class held out for tests on base classes, if the data has no further ones."""

PAPER_RECIPES: dict[DataName, RecipeName] = {"miniImageNet": "paper-miniimagenet", "FC100": "paper-fc100"}


def recipe_settings(recipe: RecipeName, changes: RecipeChanges, reading: DataConfig, seed: int) -> PretrainConfig:
    """A recipe with the user's changes: the settings that all base networks of a table share."""
    config = changes.applied_to(RECIPES[recipe].config)
    reading = dataclasses.replace(reading, image_size=reading.image_size or config.data.image_size)
    return dataclasses.replace(config, data=reading, seed=seed)


def base_settings(stage1: Stage1, shared: PretrainConfig, folder: Path) -> PretrainConfig:
    """The settings of one base network; a system has the changes to the recipe that it is usually trained with."""
    start = None if stage1.start is None else str(base_file(folder, stage1.start, shared))
    config = with_method(shared, stage1.method, start)
    architecture = dataclasses.replace(shared.architecture, network=stage1.network, wide=stage1.wide)
    shrink = None if stage1.pooling == "flatten" else config.shrink_size
    return dataclasses.replace(config, architecture=architecture, pooling=stage1.pooling, shrink_size=shrink)


def base_file(folder: Path, stage1: Stage1, shared: PretrainConfig) -> Path:
    """The file of a base network; one trained with images held out is another network than one trained on all."""
    held_out = f"-hold-out-{shared.data.hold_out}" if shared.data.hold_out else ""
    method = "" if stage1.method == "cosine" else f"{stage1.method}-"
    return folder / f"{method}{stage1.network}-{stage1.pooling}{'-wide' * stage1.wide}{held_out}.safetensors"


def check_bases(folder: Path, needed: list[Stage1], shared: PretrainConfig, base_images: ImageSet) -> list[Stage1]:
    """The networks still to be trained; an existing one with other settings or from other data is refused."""
    missing = []
    for stage1 in needed:
        file = base_file(folder, stage1, shared)
        if not file.exists():
            missing.append(stage1)
            continue
        described, _ = read_base(file)
        check_same(described, base_settings(stage1, shared, folder), base_images.fingerprint, file)
        if not described.training.finished:
            missing.append(stage1)
    return missing
