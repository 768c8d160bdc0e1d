"""A table of the paper, from a data set on disk to figures that are compared with the paper's."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import torch

from implanting.cli.verbs.reproduce_settings import (
    Reproduce,
    base_of,
    check_out,
    further_images,
    read_material,
    train_base,
)
from implanting.config import EpisodeConfig, TaskConfig
from implanting.console import print_document, print_table, result_document, say, show_progress
from implanting.datasets import ImageSet
from implanting.errors import ConfigError
from implanting.evaluation import TaskImages
from implanting.fewshot import Result
from implanting.reproduce import (
    ABLATION,
    CLAIM_COLUMNS,
    HOLD_OUT,
    MARK,
    TABLES,
    Experiment,
    KeptResults,
    Material,
    Setting,
    Stage1,
    Table,
    Trials,
    claim_rows,
    decide,
    draw_table,
    json_claims,
    markdown,
    paper_implants,
    result_rows,
    run_tests,
    table_rows,
)
from implanting.runtime import rank, write_atomically


def _chosen_table(command: Reproduce) -> Table:
    """The table with the requested shots, and with a row of ours if the settings of implants differ."""
    table = ABLATION if command.what == "ablation" else TABLES[command.what]
    if command.systems:
        table = table.with_systems()
    if command.adapt != paper_implants():
        table = table.with_ours(command.adapt)
    return table.with_shots(command.shot) if command.shot else table


def prepare(command: Reproduce) -> Experiment:
    """Read the data, draw the tasks and check the networks in --out, so that all errors come before training."""
    table = _chosen_table(command)
    material, held_out = _base_images_for_tests(command, table, read_material(command, table.data))
    tasks = TaskConfig(command.way, 1, command.queries, command.tasks, command.seed)
    trials, settings = Trials(TaskImages(material.novel, held_out, material.trained), tasks), table.settings()
    trials.draw([setting for group in settings.values() for setting in group])
    check_ways(command.way, list(settings))
    check_out(command, material, list(settings), table.name)
    return Experiment(table, material, trials)


def check_ways(way: int, needed: Sequence[Stage1]) -> None:
    """Refuse tasks of other numbers of classes than MAML, if it is among the networks, is trained on."""
    trained = EpisodeConfig.train_way
    if way != trained and any(stage1.method == "maml" for stage1 in needed):
        raise ConfigError(f"`way` is {way}, and MAML is trained on {trained} classes: leave out `way`, or `systems`")


def _base_images_for_tests(command: Reproduce, table: Table, material: Material) -> tuple[Material, ImageSet | None]:
    """Images of base classes, if the table tests any: from an extra split, or else held out of training."""
    if all(setting.classes == "novel" for settings in table.settings().values() for setting in settings):
        return material, None
    if (further := further_images(command, material)) is not None:
        return material, further
    say(f"the data has no further images of base classes: {HOLD_OUT} per class are held out of training (--hold-out)")
    data = dataclasses.replace(material.stage1.data, hold_out=HOLD_OUT)
    material = dataclasses.replace(material, stage1=dataclasses.replace(material.stage1, data=data))
    return material, further_images(command, material)


def train_and_test(command: Reproduce, experiment: Experiment, device: torch.device) -> dict[Setting, Result] | None:
    """The results of all cells, one base network after another; None if training was stopped."""
    results: dict[Setting, Result] = {}
    groups = experiment.table.settings()
    for number, (stage1, settings) in enumerate(groups.items(), start=1):
        say(f"base network {number} of {len(groups)}: {stage1}")
        file = base_of(command, experiment.material, stage1)
        base = train_base(command, experiment.material, stage1, device)
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
    """Print the table and the verdicts, then write them to --out, so that a full disk loses no results."""
    if rank() != 0:
        return
    table = experiment.table
    decisions = decide(results, table.figures())
    texts, mark = experiment.notes(), MARK if experiment.differences() else ""
    settings: dict[str, Any] = dataclasses.asdict(command)
    rows, claims = result_rows(table, results), json_claims(decisions)
    document = result_document(settings, seconds, rows, claims=claims, notes=texts)
    if command.json:
        print_document(document)
    else:
        print_table(table.heading, ["", *table.columns], table_rows(table, results, mark, "\n"), "\n".join(texts))
        print_table("What the paper claims", CLAIM_COLUMNS, claim_rows(decisions, mark))
    target = command.out / table.name
    write_atomically(target.with_suffix(".json"), json.dumps(document, default=str, indent=1).encode())
    write_atomically(target.with_suffix(".md"), markdown(table, results, decisions, texts, mark).encode())
    draw_table(
        table,
        results,
        f"{table.heading}, on {experiment.material.novel.name}",
        target.with_suffix(".png"),
    )
    if not command.json:
        say(f"written: {target}.md, .json, .png")
