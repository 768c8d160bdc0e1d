"""`implanting evaluate`: few-shot accuracy of a base network, with its interval."""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from implanting.base import load_base
from implanting.commands.parsing import parse
from implanting.config import InferenceConfig, RunConfig, TaskConfig
from implanting.console import print_json, print_table, result_row, say, show_progress
from implanting.datasets import read_dataset
from implanting.distributed import choose_device
from implanting.evaluation import evaluate_embedded
from implanting.inference import prototype_classifier
from implanting.tasks import draw_tasks


@dataclass(frozen=True)
class Evaluate:
    """Few-shot accuracy of a base network on classes it has not seen, by prototypes, with a 95 % interval.

    Task i depends on the seed and i alone: other settings or another base see the same tasks.
    """

    base: Path
    """A base network made by `implanting pretrain`."""
    data: Path
    """A data set (docs/data.md)."""
    split: str = "test"
    """Its classes: test, val or train."""
    splits: str | None = None
    """Class lists for data that comes unsplit: fc100, cifar-fs, or a JSON or csv FILE; default: by the base's seed."""
    way: int = TaskConfig.way
    """Classes of a task."""
    shot: tuple[int, ...] = (1, 5, 10)
    """Support images of each class; several values are evaluated in turn."""
    queries: int = TaskConfig.queries
    """Query images of each class."""
    tasks: int = TaskConfig.tasks
    """Number of tasks."""
    seed: int = TaskConfig.seed
    """Task i is drawn from (seed, i) alone."""
    json: bool = False
    """End with one JSON document on stdout."""
    pooling: InferenceConfig = field(default_factory=InferenceConfig)
    run: RunConfig = field(default_factory=RunConfig)


def main(arguments: Sequence[str]) -> int:
    """Embed every image once, then evaluate each number of shots."""
    command = parse(Evaluate, "evaluate", arguments)
    if command.run.threads:
        torch.set_num_threads(command.run.threads)
    began = time.monotonic()
    base = load_base(command.base, str(choose_device(command.run.device)))
    trained = base.description
    image_set = read_dataset(
        command.data,
        command.split,
        splits=command.splits,
        split_seed=trained.config.data.split_seed,
        image_size=trained.square_size,
        progress=show_progress,
    )
    configs = [TaskConfig(command.way, shot, command.queries, command.tasks, command.seed) for shot in command.shot]
    drawn = [draw_tasks(image_set, config) for config in configs]
    if shared := set(trained.class_names) & set(image_set.class_names):
        say(
            f"warning: {len(shared)} of these classes were base classes, such as '{min(shared)}': not a few-shot result"
        )
    classify = prototype_classifier(trained.config.pooling, base.tau, command.pooling)
    phi = base.embed(image_set.images, show_progress)
    results = [evaluate_embedded(phi, tasks, config, classify) for tasks, config in zip(drawn, configs, strict=True)]
    if command.json:
        print_json(dataclasses.asdict(command), time.monotonic() - began, [result_row(result) for result in results])
        return 0
    print_table(
        f"{command.base.name} on {image_set.name} ({len(image_set.class_names)} classes)",
        ["", *(f"{shot}-shot" for shot in command.shot)],
        [[f"{command.way}-way, {classify}", *(str(result.estimate) for result in results)]],
        f"accuracy in %, mean of {command.tasks} tasks ± 95 % interval over the sampling of tasks, "
        f"{command.queries} queries a class",
    )
    return 0
