"""`implanting evaluate`: few-shot accuracy of a base network, with its interval."""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from implanting.base import BaseNetwork
from implanting.base_file import load_base
from implanting.commands.parsing import parse
from implanting.comparison import Approach, Comparison
from implanting.config import ImplantConfig, InferenceConfig, RunConfig, TaskConfig, require
from implanting.console import print_json, print_table, say, show_progress
from implanting.datasets import ImageSet, read_dataset, shared_classes
from implanting.distributed import choose_device, launch, process_group, rank, set_threads, world_size
from implanting.errors import ConfigError
from implanting.evaluation import evaluate_tasks
from implanting.held_out import held_out_images
from implanting.methods.by_class_weights import base_class_method, joint_method
from implanting.results import Result
from implanting.tasks import Tasks, draw_tasks, save_tasks

Cell = tuple[Tasks, TaskConfig]

TOO_FEW_TO_ADAPT = "implants cannot be trained on one support a class; prototypes only (--adapt-views 2 would do it)"
TOO_FEW_TO_DECIDE = "too few supports to hold some out and decide from them"


@dataclass(frozen=True)
class Evaluate:
    """Few-shot accuracy of a base network on classes it has not seen, by prototypes, with a 95 % interval.

    Task i depends on the seed and i alone: other settings or another base see the same tasks.
    """

    base: Path
    """A base network: a file made by `implanting pretrain`, efficientnet-lite0 (ImageNet) or fc100."""
    data: Path
    """A data set (docs/data.md)."""
    split: str = "test"
    """Its classes: test, val or train."""
    splits: str | None = None
    """Class lists for unsplit data: fc100, cifar-fs, miniimagenet, or a JSON or csv FILE; default: as for the base."""
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
    classes: Literal["novel", "base", "both"] = "novel"
    """novel: a task's classes, by prototypes. base: all base classes, by the learned class weights. both: together."""
    implants: bool = False
    """Train implants on each task's supports, and test them beside the prototypes on the same tasks."""
    half: bool = False
    """Keep the base activations that implants read in half precision."""
    cache: Path | None = None
    """A folder to keep these activations in for other runs."""
    workers: int = 1
    """Processes on this machine that share the tasks, each with as many threads as OMP_NUM_THREADS says, or one."""
    save_tasks: Path | None = None
    """Write the tasks to this file (.npz), for other people's code."""
    json: bool = False
    """End with one JSON document on stdout."""
    pooling: InferenceConfig = field(default_factory=InferenceConfig)
    adapt: ImplantConfig = field(default_factory=ImplantConfig)
    run: RunConfig = field(default_factory=RunConfig)


def main(arguments: Sequence[str]) -> int:
    """Compute what each image needs once, then evaluate each number of shots."""
    command = parse(Evaluate, "evaluate", arguments)
    if command.classes != "novel" and command.implants:
        raise ConfigError(f"--classes {command.classes} is defined without implants: leave out --implants")
    if command.classes != "novel" and command.pooling.support_views > 1:
        raise ConfigError(f"--classes {command.classes} is defined without views: leave out --support-views")
    require(command.workers >= 1, "workers", command.workers, "1 or more")
    require(len(command.shot) >= 1, "shot", "empty", "one number or more")
    set_threads(command.run.threads)
    device = choose_device(command.run.device)
    base = load_base(command.base, str(device))
    if command.workers > 1 and world_size() == 1:
        draw(command, read_split(command, base, command.split))  # so that what is wrong is said once, by one process
        return launch(command.workers, "evaluate", arguments)
    began = time.monotonic()
    with process_group(device):
        title, results = EVALUATIONS[command.classes](command, base)
    if command.json:
        print_json(dataclasses.asdict(command), time.monotonic() - began, rows_with_gains(results))
    else:
        show(command, title, results)
    return 0


def draw(command: Evaluate, image_set: ImageSet) -> list[Cell]:
    """The tasks of each number of shots; the first are saved where that is asked for."""
    configs = [TaskConfig(command.way, shot, command.queries, command.tasks, command.seed) for shot in command.shot]
    cells = [(draw_tasks(image_set, config), config) for config in configs]
    if command.save_tasks and rank() == 0:
        save_tasks(command.save_tasks, image_set, cells)
    return cells


def novel_classes(command: Evaluate, base: BaseNetwork) -> tuple[str, list[Result]]:
    """Prototypes and, where they can be trained, implants on the same tasks."""
    image_set = read_split(command, base, command.split)
    warn(command, base, image_set)
    cells, classes, approaches = draw(command, image_set), len(image_set.class_names), approaches_of(command)
    comparison = Comparison(
        base,
        image_set,
        approaches,
        seed=command.seed,
        half=command.half,
        cache=command.cache,
        progress=show_progress,
    )
    results = [
        evaluate_tasks(comparison.method(approach), *cell, classes, show_progress)
        for approach in approaches
        for cell in cells
        if approach.serves(cell[1].shot)
    ]
    say_what_is_left_out(command, approaches)
    return f"{image_set.name}, {command.way}-way tasks of its {classes} classes", results


def warn(command: Evaluate, base: BaseNetwork, image_set: ImageSet) -> None:
    """What makes the figures worth less than they seem."""
    if shared := shared_classes(base.class_names, image_set.class_names):
        say(f"warning: {len(shared)} of these were base classes, such as '{shared[0]}': not a few-shot result")
    if not base.finished:
        say(f"warning: the training of {command.base} is not finished")


def approaches_of(command: Evaluate) -> list[Approach]:
    """Prototypes of the images, of their views where these are averaged, implants, and implants where they help."""
    approaches = [Approach(replace(command.pooling, support_views=1)), Approach(command.pooling)]
    if command.implants:
        always = replace(command.adapt, implant_decision="always")
        approaches += [Approach(command.pooling, always), Approach(command.pooling, command.adapt)]
    return list(dict.fromkeys(approaches))


def say_what_is_left_out(command: Evaluate, approaches: Sequence[Approach]) -> None:
    """Which shots are too few for a decision about implants, or for implants."""
    for approach in approaches:
        if few := [str(shot) for shot in command.shot if not approach.serves(shot)]:
            say(f"{' and '.join(few)}-shot: {TOO_FEW_TO_DECIDE if approach.decides else TOO_FEW_TO_ADAPT}")


def base_classes(command: Evaluate, base: BaseNetwork) -> tuple[str, list[Result]]:
    """The learned class weights on images of base classes that were not trained on; shots make no difference."""
    image_set = read_held_out(command, base)
    config = TaskConfig(command.way, 1, command.queries, command.tasks, command.seed)
    method = base_class_method(base, base.embed(image_set.images, show_progress), command.pooling)
    result = evaluate_tasks(method, draw_tasks(image_set, config), config, len(image_set.class_names), show_progress)
    results = [dataclasses.replace(result, config=dataclasses.replace(config, shot=shot)) for shot in command.shot]
    return f"{len(image_set)} images of all {len(image_set.class_names)} base classes, not trained on", results


def both_classes(command: Evaluate, base: BaseNetwork) -> tuple[str, list[Result]]:
    """Class weights and prototypes side by side, on as many base as novel queries."""
    novel, known = read_split(command, base, command.split), read_held_out(command, base)
    base_tasks = draw_tasks(known, TaskConfig(command.way, 1, command.queries, command.tasks, command.seed))
    novel_phi, base_phi = (base.embed(images.images, show_progress) for images in (novel, known))
    method = joint_method(base, novel_phi, base_phi, base_tasks, command.pooling)
    classes = len(known.class_names) + len(novel.class_names)
    results = [evaluate_tasks(method, *cell, classes, show_progress) for cell in draw(command, novel)]
    return f"all {len(known.class_names)} base classes and {command.way} of {novel.name} together", results


EVALUATIONS = {"novel": novel_classes, "base": base_classes, "both": both_classes}


def read_split(command: Evaluate, base: BaseNetwork, split: str) -> ImageSet:
    """A split of the data, its images brought to the size that the base was trained for."""
    return read_dataset(
        command.data,
        split,
        splits=command.splits,
        default_splits=base.data.splits,
        split_seed=base.data.split_seed,
        image_size=base.preprocessing.square_size,
        progress=show_progress,
    )


def read_held_out(command: Evaluate, base: BaseNetwork) -> ImageSet:
    """Images of the base classes that were not trained on."""
    if base.description is None:
        raise ConfigError(
            f"--classes {command.classes}: {base.name} comes without its base classes' images and weights"
        )
    return held_out_images(base.description, partial(read_split, command, base))


def rows_with_gains(results: Sequence[Result]) -> list[dict[str, Any]]:
    """A row a result; implants also carry their paired gain over prototypes on the same tasks."""
    first = {result.config.shot: result for result in reversed(results)}
    rows = []
    for result in results:
        gain = result.gain_over(first[result.config.shot])
        paired = {"gain": gain.mean, "gain_interval": gain.interval} if result is not first[result.config.shot] else {}
        rows.append(result.row() | paired)
    return rows


def show(command: Evaluate, title: str, results: Sequence[Result]) -> None:
    """A row a method, and the paired gain of implants."""
    cells = {(result.method, result.config.shot): result for result in results}
    methods = list(dict.fromkeys(result.method for result in results))

    def row(title: str, texts: dict[int, str]) -> list[str]:
        return [title, *(texts.get(shot, "") for shot in command.shot)]

    rows = [
        row(name, {shot: str(result.estimate) for (method, shot), result in cells.items() if method == name})
        for name in methods
    ]
    for name in methods[1:]:
        shots = [shot for method, shot in cells if method == name]
        gains = {shot: cells[name, shot].gain_over(cells[methods[0], shot]).signed() for shot in shots}
        rows.append(row("gain, paired" if len(methods) == 2 else f"gain of {name}, paired", gains))
    print_table(
        f"{command.base.name} on {title}",
        ["", *(f"{shot}-shot" for shot in command.shot)],
        rows,
        f"accuracy in %, mean of {command.tasks} tasks ± 95 % interval over the sampling of tasks, "
        f"{command.queries} queries a class; in brackets, support/query pooling",
    )
