"""What `implanting reproduce` takes, and what tables and the figure share: data, and base networks trained on it."""

import dataclasses
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
    recipe_settings,
)


@dataclass(frozen=True)
class Reproduce:
    """A table of the paper: train the base networks it needs, test every row on the same tasks, judge its claims.

    Or its Figure 3: where a network trained with pooling and a dense one see a class. Writes tableN.md, tableN.json,
    tableN.png (figure3.json, figure3.png), the base networks and all results to --out. What --out already holds is
    taken up: a run that was stopped or killed goes on when it is called again, and tables share what they can.
    """

    HELP_FROM: ClassVar[tuple[type, ...]] = (TaskConfig, Evaluate)

    what: Annotated[Literal["table1", "table2", "table3", "table4", "table5", "figure3"], tyro.conf.Positional]
    """Tables 1: networks; 2: pooling, base and novel classes; 3: pooling of implants; 4: miniImageNet; 5: FC100."""
    data: Path
    """A data set (docs/data.md): the table's own, or any other."""
    out: Path
    """A folder for all that is made; it is created."""
    split: Literal["test", "val"] = "test"
    """The novel classes: test as in the paper, or val."""
    recipe: Literal["paper", "cpu"] = "paper"
    """Stage 1: the paper's for this data set (for other data, the table's), or one for a CPU."""
    shot: tuple[int, ...] = ()
    """Only these of the table's numbers of support images per class; default: all. Figure 3 takes one; default: 5."""
    way: int = TaskConfig.way
    queries: int = TaskConfig.queries
    tasks: int = TaskConfig.tasks
    """Tasks of each cell; with implants at most 5,000, as in the paper. Figure 3 looks through 20 at most."""
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
    adapt: ImplantConfig = field(default_factory=ImplantConfig)
    """Settings of stage 2 other than the paper's add a row of ours."""
    run: RunConfig = field(default_factory=RunConfig)


def read(command: Reproduce, image_size: int | None, split: str) -> ImageSet:
    """A split of the data."""
    return read_dataset(
        command.data,
        split,
        splits=command.reading.splits,
        split_seed=command.reading.split_seed,
        image_size=image_size,
        progress=show_progress,
    )


def read_material(command: Reproduce, papers: DataName) -> Material:
    """Read the data and settle the training; data that the paper does not have is trained on as its `papers` data."""
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
    given = {name: value for name, value in dataclasses.asdict(command.changes).items() if value is not None}
    changes = [f"{name.replace('_', ' ')} {value}" for name, value in given.items() if name not in FREE]
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


def check_out(command: Reproduce, material: Material, needed: Sequence[Stage1]) -> None:
    """Look at the base networks that --out holds, and say how many are to be trained."""
    missing = check_bases(command.out, list(needed), material.stage1, material.base_images)
    say(f"{command.what}: {len(needed)} base networks, {len(missing)} of them to train (recipe {material.recipe})")


def base_of(command: Reproduce, material: Material, stage1: Stage1) -> Path:
    """Where a base network is kept."""
    return base_file(command.out, stage1, material.stage1)


def train_base(command: Reproduce, material: Material, stage1: Stage1, device: torch.device) -> BaseNetwork:
    """A base network, taken up or trained; unfinished where training was stopped."""
    config, file = base_settings(stage1, material.stage1), base_of(command, material, stage1)
    return train(config, material.base_images, material.validation, Output(file, resume=True), device)
