"""`implanting reproduce`: a table of the paper, from a data set on disk to figures beside the paper's."""

import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro

from implanting.checkpoint import write_atomically
from implanting.commands.parsing import parse
from implanting.commands.pretrain import read_splits, train
from implanting.config import (
    DataConfig,
    ImplantConfig,
    PretrainConfig,
    RecipeChanges,
    RunConfig,
    TaskConfig,
    require,
)
from implanting.console import print_document, print_table, result_document, say, show_progress
from implanting.datasets import ImageSet, check_disjoint, read_dataset
from implanting.distributed import choose_device, launch, process_group, rank, set_threads, world_size
from implanting.evaluation import Result
from implanting.held_out import extra_images
from implanting.reproduce.bases import (
    HOLD_OUT,
    PAPER_RECIPES,
    base_file,
    base_settings,
    check_bases,
    recipe_settings,
)
from implanting.reproduce.claims import decide
from implanting.reproduce.data_sets import paper_data
from implanting.reproduce.drawing import draw_table
from implanting.reproduce.experiment import MARK, Experiment
from implanting.reproduce.kept_results import KeptResults
from implanting.reproduce.paper import TABLES
from implanting.reproduce.settings import Setting
from implanting.reproduce.tables import Table
from implanting.reproduce.testing import Trials, run_tests
from implanting.reproduce.writing import (
    CLAIM_COLUMNS,
    claim_rows,
    json_claims,
    markdown,
    result_rows,
    table_rows,
)
from implanting.run import FREE


@dataclass(frozen=True)
class Reproduce:
    """A table of the paper: train the base networks it needs, test every row on the same tasks, judge its claims.

    Writes tableN.md, tableN.json, tableN.png, the base networks and all results to --out. What --out already holds is
    taken up: a run that was stopped or killed goes on when it is called again, and tables share what they can.
    """

    table: Annotated[Literal["table1", "table2", "table3", "table4", "table5"], tyro.conf.Positional]
    """1: both networks. 2: pooling, base and novel classes. 3: pooling of implants. 4: miniImageNet. 5: FC100."""
    data: Path
    """A data set (docs/data.md): the table's own, or any other."""
    out: Path
    """A folder for all that is made; it is created."""
    split: Literal["test", "val"] = "test"
    """The novel classes: test as in the paper, or val."""
    recipe: Literal["paper", "cpu"] = "paper"
    """Stage 1: the paper's for this data set (for other data, the table's), or one for a CPU."""
    shot: tuple[int, ...] = ()
    """Only these of the table's numbers of support images a class; default: all."""
    way: int = TaskConfig.way
    """Classes of a task."""
    queries: int = TaskConfig.queries
    """Query images of each class."""
    tasks: int = TaskConfig.tasks
    """Tasks of each cell; with implants at most 5,000, as in the paper."""
    seed: int = TaskConfig.seed
    """Fixes initial weights, order and augmentation of training, images held out, and tasks."""
    half: bool = False
    """Keep the base activations that implants read in half precision."""
    cache: Path | None = None
    """A folder to keep these activations in for other runs."""
    workers: int = 1
    """Processes on this machine that train together and share the tasks, each with OMP_NUM_THREADS threads, or one."""
    json: bool = False
    """End with one JSON document on stdout."""
    reading: DataConfig = field(default_factory=DataConfig)
    changes: RecipeChanges = field(default_factory=RecipeChanges)
    adapt: ImplantConfig = field(default_factory=ImplantConfig)
    """Settings of stage 2 other than the paper's add a row of ours."""
    run: RunConfig = field(default_factory=RunConfig)


def main(arguments: Sequence[str]) -> int:
    """Check everything first; then train, test, and tell."""
    command = parse(Reproduce, "reproduce", arguments)
    require(command.workers >= 1, "workers", command.workers, "1 or more")
    set_threads(command.run.threads)
    device = choose_device(command.run.device)
    began = time.monotonic()
    experiment = prepare(command)
    if command.workers > 1 and world_size() == 1:
        return launch(command.workers, "reproduce", arguments)
    with process_group(device):
        results = train_and_test(command, experiment, device)
    if results is None:
        say(f"stopped; the same command goes on from what {command.out} holds")
        return 130
    report(command, experiment, results, time.monotonic() - began)
    return 0


def chosen_table(command: Reproduce) -> Table:
    """The table, cut to the shots asked for, with a row of ours where implants are set otherwise."""
    table = TABLES[command.table]
    if command.adapt != ImplantConfig():
        table = table.with_ours(command.adapt)
    return table.with_shots(command.shot) if command.shot else table


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


def prepare(command: Reproduce) -> Experiment:
    """Read the data, draw the tasks, look at what --out holds: all that can be wrong is said before training."""
    table = chosen_table(command)
    command.out.mkdir(parents=True, exist_ok=True)
    novel = read(command, command.reading.image_size, command.split)
    recipe = PAPER_RECIPES[paper_data(novel) or table.data] if command.recipe == "paper" else command.recipe
    shared = recipe_settings(recipe, command.changes, command.reading, command.seed)
    base_images, validation = read_splits(command.data, shared)
    height, width = base_images.images.shape[1:3]
    if novel.images.shape[1:3] != (height, width):
        novel = read(command, height, command.split)
    check_disjoint(base_images, novel)
    shared, held_out = base_images_for_tests(command, table, shared, base_images)
    trials = Trials(novel, held_out, TaskConfig(command.way, 1, command.queries, command.tasks, command.seed))
    settings = table.settings()
    trials.draw([setting for group in settings.values() for setting in group])
    missing = check_bases(command.out, list(settings), shared, base_images)
    say(f"{table.name}: {len(settings)} base networks, {len(missing)} of them to train (recipe {recipe})")
    given = {name: value for name, value in dataclasses.asdict(command.changes).items() if value is not None}
    changes = [f"{name.replace('_', ' ')} {value}" for name, value in given.items() if name not in FREE]
    described = ", ".join([recipe, *changes])
    is_papers = command.recipe == "paper" and not changes
    return Experiment(table, described, is_papers, shared, base_images, validation, command.split, trials)


def base_images_for_tests(
    command: Reproduce, table: Table, shared: PretrainConfig, base_images: ImageSet
) -> tuple[PretrainConfig, ImageSet | None]:
    """Images of base classes for tests, where the table has such tests: an extra split, or else some held out."""
    if all(setting.classes == "novel" for settings in table.settings().values() for setting in settings):
        return shared, None
    if not shared.data.hold_out:
        if extra := extra_images(base_images.class_names, partial(read, command, base_images.images.shape[1])):
            return shared, extra
        shared = dataclasses.replace(shared, data=dataclasses.replace(shared.data, hold_out=HOLD_OUT))
        say(f"no further images of the base classes: {HOLD_OUT} of each are held out of training (--hold-out)")
    chosen = base_images.choose_held_out(shared.data.hold_out, shared.seed)
    return shared, base_images.subset(chosen)


def train_and_test(command: Reproduce, experiment: Experiment, device: torch.device) -> dict[Setting, Result] | None:
    """The results of every cell, base network by base network; None where training was stopped."""
    results: dict[Setting, Result] = {}
    groups = experiment.table.settings()
    for number, (stage1, settings) in enumerate(groups.items(), start=1):
        say(f"base network {number} of {len(groups)}: {stage1}")
        file = base_file(command.out, stage1, experiment.stage1)
        config = base_settings(stage1, experiment.stage1)
        base = train(config, experiment.base_images, experiment.validation, file, device, resume=True)
        if not base.finished:
            return None
        kept, cache = KeptResults(command.out / "results"), command.cache and command.cache / file.stem
        tests = run_tests(
            base, settings, experiment.trials, kept, half=command.half, cache=cache, progress=show_progress
        )
        for setting, result in tests:
            results[setting] = result
            say(f"  {setting.shot}-shot, {setting.classes} classes, {setting.method}: {result.estimate}")
    return results


def report(command: Reproduce, experiment: Experiment, results: dict[Setting, Result], seconds: float) -> None:
    """The table and the verdicts, on stdout and in --out."""
    if rank() != 0:
        return
    table = experiment.table
    decisions = decide(results, table.figures())
    texts, mark = experiment.notes(), MARK if experiment.differences() else ""
    settings: dict[str, Any] = dataclasses.asdict(command)
    rows, claims = result_rows(table, results), json_claims(decisions)
    document = result_document(settings, seconds, rows, claims=claims, notes=texts)
    target = command.out / table.name
    write_atomically(target.with_suffix(".json"), json.dumps(document, default=str, indent=1).encode())
    write_atomically(target.with_suffix(".md"), markdown(table, results, decisions, texts, mark).encode())
    draw_table(
        table,
        results,
        f"Table {table.number} of the paper, on {experiment.trials.novel.name}",
        target.with_suffix(".png"),
    )
    if command.json:
        print_document(document)
        return
    title = f"Table {table.number}: {table.title}"
    print_table(title, ["", *table.columns], table_rows(table, results, mark, "\n"), "\n".join(texts))
    print_table("What the paper claims", CLAIM_COLUMNS, claim_rows(decisions, mark))
    say(f"written: {target}.md, .json, .png")
