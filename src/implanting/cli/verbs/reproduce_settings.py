"""The settings of `implanting reproduce`, and what tables and the figure share: the data and the base networks."""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import torch
import tyro

from implanting.base import BaseNetwork
from implanting.cli.verbs.evaluate import Evaluate
from implanting.cli.verbs.pretrain import read_splits, train
from implanting.config import DataConfig, ImplantConfig, RecipeChanges, RunConfig, TaskConfig
from implanting.console import say, show_progress
from implanting.datasets import ImageSet, check_disjoint, read_dataset
from implanting.errors import ConfigError
from implanting.evaluation import extra_images
from implanting.pretraining import FREE, Output
from implanting.reproduce import (
    PAPER_RECIPES,
    DataName,
    Material,
    Stage1,
    base_file,
    base_settings,
    check_bases,
    paper_data,
    paper_implants,
    recipe_settings,
)
from implanting.runtime import holds, is_our_picture


@dataclass(frozen=True)
class Reproduce:
    """A table of the paper: train the base networks it needs, test every row on the same tasks, judge its claims.

    Or Figure 3: where a network trained with pooling and a densely trained one see a class. Writes tableN.md,
    tableN.json and tableN.png (or figure3.json and figure3.png), the base networks and all results to --out. Whatever
    --out already holds is used: a run that was stopped or killed continues when it is called again, and tables share
    what they can.
    """

    HELP_FROM: ClassVar[tuple[type, ...]] = (TaskConfig, Evaluate)

    what: Annotated[
        Literal["table1", "table2", "table3", "table4", "table5", "figure3", "ablation"], tyro.conf.Positional
    ]
    """Tables 1: networks; 2: pooling, base and novel classes; 3: pooling of implants; 4: miniImageNet; 5: FC100.
    ablation: implants and their rivals on the same frozen features."""
    data: Path
    """A data set (docs/data.md): the one of the table, or any other."""
    out: Path
    """A folder for everything that is written; it is created if it does not exist."""
    split: Literal["test", "val"] = "test"
    """The split of the novel classes: test, as in the paper, or val."""
    recipe: Literal["paper", "cpu", "cpu-84"] = "paper"
    """Recipe of stage 1: the paper's for this data set (for other data, that of the table), or one for a CPU."""
    shot: tuple[int, ...] = ()
    """Only these of the table's numbers of support images per class; default: all. Figure 3 takes one; default: 5."""
    way: int = TaskConfig.way
    queries: int = TaskConfig.queries
    tasks: int = TaskConfig.tasks
    """Tasks per cell; with implants at most 5,000, as in the paper. Figure 3 uses at most 20."""
    systems: bool = False
    """In tables 4 and 5, also train and test the systems that the paper quotes from the literature."""
    seed: int = TaskConfig.seed
    """Fixes initial weights, order and augmentation of training, images held out, and tasks."""
    half: bool = Evaluate.half
    cache: Path | None = Evaluate.cache
    workers: int = 1
    """Processes on this machine that train together and share the tasks, each with OMP_NUM_THREADS threads, or one."""
    json: bool = False
    """End with one JSON document on stdout."""
    reading: DataConfig = field(default_factory=DataConfig)
    changes: RecipeChanges = field(default_factory=RecipeChanges)
    adapt: ImplantConfig = field(default_factory=paper_implants)
    """If these settings of stage 2 differ from the paper's, the table gets a row of ours."""
    run: RunConfig = field(default_factory=RunConfig)


def read(command: Reproduce, image_size: int | None, split: str) -> ImageSet:
    """Read a split of the data."""
    return read_dataset(
        command.data,
        split,
        splits=command.reading.splits,
        split_seed=command.reading.split_seed,
        image_size=image_size,
        progress=show_progress,
    )


def read_material(command: Reproduce, papers: DataName) -> Material:
    """Read the data and choose the training; for data that is not in the paper, the recipe for its `papers` data."""
    if command.out.exists() and not command.out.is_dir():
        raise ConfigError(
            f"`out` {command.out} is a file; a folder is needed for tables and base networks: name another"
        )
    novel = read(command, command.reading.image_size, command.split)
    recipe = PAPER_RECIPES[paper_data(novel) or papers] if command.recipe == "paper" else command.recipe
    shared = recipe_settings(recipe, command.changes, command.reading, command.seed)
    base_images, validation = read_splits(command.data, shared)
    height, width = base_images.images.shape[1:3]
    if novel.images.shape[1:3] != (height, width):
        novel = read(command, height, command.split)
    check_disjoint(base_images, novel)
    changed = {name: value for name, value in dataclasses.asdict(command.changes).items() if value is not None}
    changes = [f"{name.replace('_', ' ')} {value}" for name, value in changed.items() if name not in FREE]
    described = ", ".join([recipe, *changes])
    is_papers = command.recipe == "paper" and not changes
    command.out.mkdir(parents=True, exist_ok=True)  # here, since what is refused above leaves nothing behind
    return Material(described, is_papers, shared, base_images, validation, novel, command.split)


def further_images(command: Reproduce, material: Material) -> ImageSet | None:
    """Images of base classes that were not trained on: those held out, or else the extra split, if there is one."""
    images, hold_out = material.base_images, material.stage1.data.hold_out
    if hold_out:
        return images.subset(images.choose_held_out(hold_out, material.stage1.seed))
    return extra_images(images.class_names, partial(read, command, images.images.shape[1]))


def check_out(command: Reproduce, material: Material, needed: Sequence[Stage1], name: str) -> None:
    """Check what is in --out: files that the report would replace, and base networks, of which some may be missing."""
    ours = {".json": holds(b'"code_version"'), ".md": holds(f"]({name}.png)".encode()), ".png": is_our_picture}
    for ending, is_ours in ours.items():
        file = command.out / f"{name}{ending}"
        if os.path.lexists(file) and not is_ours(file):
            raise ConfigError(
                f"`out` {command.out} holds {file.name}, which was not written by this command: move it away, or name "
                "another folder"
            )
    missing = check_bases(command.out, list(needed), material.stage1, material.base_images)
    say(f"{command.what}: {len(needed)} base networks, {len(missing)} of them to train (recipe {material.recipe})")


def base_of(command: Reproduce, material: Material, stage1: Stage1) -> Path:
    """The file of a base network."""
    return base_file(command.out, stage1, material.stage1)


def train_base(command: Reproduce, material: Material, stage1: Stage1, device: torch.device) -> BaseNetwork:
    """Load, resume or train a base network; it is unfinished if training was stopped."""
    config, file = base_settings(stage1, material.stage1, command.out), base_of(command, material, stage1)
    return train(config, material.base_images, material.validation, Output(file, resume=True), device)
