"""Figure 3 of the paper, from a data set on disk to a picture and the examples that it shows."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import torch

from implanting.base import BaseNetwork
from implanting.cli.verbs.reproduce_settings import Reproduce, check_out, further_images, read_material, train_base
from implanting.config import TaskConfig
from implanting.console import print_document, print_table, result_document, say, show_progress
from implanting.datasets import ImageSet
from implanting.errors import ConfigError
from implanting.fewshot import draw_tasks
from implanting.reproduce import (
    RESNET_DC,
    RESNET_GAP,
    TASKS,
    Example,
    Figure3,
    Material,
    Sight,
    figure3,
    held_out_note,
    paper_implants,
    write_figure3,
)
from implanting.runtime import rank, write_atomically

NETWORKS = (RESNET_GAP, RESNET_DC)
"""The two networks that the figure compares."""

NO_BASE_ROW = (
    "The row of base classes is left out: the data has no further images of them, and none were held out of training "
    "(--hold-out 100 would train other networks, without 100 images of each class)."
)


@dataclass(frozen=True)
class Looking:
    """The images and tasks from which the figure's examples are picked."""

    material: Material
    held_out: ImageSet | None
    """Images of base classes that were not trained on."""
    tasks: TaskConfig

    def notes(self) -> list[str]:
        """Notes in addition to the caption."""
        base = f"Base classes: {held_out_note(self.material.stage1.data.hold_out)}."
        return [self.material.note(), NO_BASE_ROW if self.held_out is None else base]


def prepare(command: Reproduce) -> Looking:
    """Read the data, draw the tasks and check the networks in --out, so that all errors come before training."""
    if command.adapt != paper_implants():
        raise ConfigError("figure3 has no implants: leave out the --implant and --adapt settings")
    if len(command.shot) > 1:
        shots = " ".join(map(str, command.shot))
        raise ConfigError(f"--shot is {shots}; figure3 takes one number of shots: choose one")
    shot, tasks = command.shot[0] if command.shot else TASKS.shot, min(command.tasks, TASKS.tasks)
    material = read_material(command, "miniImageNet")
    looking = Looking(
        material,
        further_images(command, material),
        TaskConfig(command.way, shot, command.queries, tasks, command.seed),
    )
    draw_tasks(material.novel, looking.tasks)
    check_out(command, material, NETWORKS, "figure3")
    if looking.held_out is None:
        say(NO_BASE_ROW)
    return looking


def train_and_look(command: Reproduce, looking: Looking, device: torch.device) -> Figure3 | None:
    """The examples as both networks see them; None if training was stopped."""
    bases: list[BaseNetwork] = []
    for number, stage1 in enumerate(NETWORKS, start=1):
        say(f"base network {number} of {len(NETWORKS)}: {stage1}")
        bases.append(train_base(command, looking.material, stage1, device))
        if not bases[-1].finished:
            return None
    pooling, dense = bases
    return figure3(pooling, dense, looking.material.novel, looking.held_out, looking.tasks, progress=show_progress)


def report(command: Reproduce, looking: Looking, found: Figure3, seconds: float) -> None:
    """Print which examples the picture shows, then write it to --out, so that a full disk loses no results."""
    if rank() != 0:
        return
    settings: dict[str, Any] = dataclasses.asdict(command)
    notes = [found.caption, *looking.notes()]
    document = result_document(settings, seconds, _example_rows(found), notes=notes)
    if command.json:
        print_document(document)
    else:
        _print_examples(looking, found)
    target = command.out / "figure3"
    write_figure3(found, target.with_suffix(".png"))
    write_atomically(target.with_suffix(".json"), json.dumps(document, default=str, indent=1).encode())
    if not command.json:
        say(f"written: {target}.png, .json")


def _print_examples(looking: Looking, found: Figure3) -> None:
    print_table(
        f"Figure 3 of the paper, on {looking.material.novel.name}",
        ["", "class", "pooling", "dense"],
        [
            [row, one.name, _in_words(one, one.pooling), _in_words(one, one.dense)]
            for row, examples in found.rows.items()
            for one in examples
        ],
        "\n".join(["the probability of the true class, and the answer if it is wrong", *looking.notes()]),
    )


def _in_words(example: Example, sight: Sight) -> str:
    wrong = "" if sight.answer == example.name else f", answers {sight.answer}"
    return f"{100 * sight.probability:.0f} %{wrong}"


def _example_rows(found: Figure3) -> list[dict[str, Any]]:
    """One row of JSON per example; maps are arrays of the true class's scores, row by row."""
    return [
        {"row": row, "class": one.name, "pooling": _json_sight(one.pooling), "dense": _json_sight(one.dense)}
        for row, examples in found.rows.items()
        for one in examples
    ]


def _json_sight(sight: Sight) -> dict[str, Any]:
    return {"answer": sight.answer, "probability": sight.probability, "map": sight.map.tolist()}
