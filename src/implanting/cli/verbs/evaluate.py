"""`implanting evaluate`: few-shot accuracy of a base network, with its interval."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch

from implanting.base import BaseNetwork, load_base
from implanting.cli.parsing import parse
from implanting.cli.verbs.evaluate_report import (
    Tested,
    result_arrays,
    rows_of,
    say_remarks,
    say_what_is_left_out,
    show,
    task_arrays,
    write_arrays,
)
from implanting.cli.workers import launch
from implanting.config import ImplantConfig, InferenceConfig, MethodName, RivalConfig, RunConfig, TaskConfig, require
from implanting.console import print_json, show_progress
from implanting.datasets import ImageSet, read_dataset
from implanting.errors import ConfigError, SplitMissing
from implanting.evaluation import Approach, Classes, TaskImages, Trial, approach_of, compare, held_out_images
from implanting.fewshot import Result
from implanting.runtime import (
    check_cores,
    check_destination,
    choose_device,
    holds,
    process_group,
    rank,
    set_threads,
    world_size,
)


@dataclass(frozen=True)
class Evaluate:
    """Measure the few-shot accuracy of a base network on classes it has not seen, with a 95 % interval.

    The default method is prototypes. Task i depends only on the seed and i, so other settings or another base are
    tested on the same tasks.
    """

    HELP_FROM: ClassVar[tuple[type, ...]] = (TaskConfig,)

    base: Path
    """A base network: a file made by `implanting pretrain`, efficientnet-lite0,
    efficientnet-lite2, lite0+lite2 (ImageNet), fc100 or miniimagenet."""
    data: Path
    """A data set (docs/data.md)."""
    split: str = "test"
    """Its classes: test, val or train."""
    splits: str | None = None
    """Class lists for unsplit data: fc100, cifar-fs, miniimagenet, or a JSON or csv FILE; default: the base's."""
    way: int = TaskConfig.way
    shot: tuple[int, ...] = (1, 5, 10)
    """Support images per class; several values are evaluated in turn."""
    queries: int = TaskConfig.queries
    tasks: int = TaskConfig.tasks
    seed: int = TaskConfig.seed
    classes: Classes = "novel"
    """novel: a task's classes, by prototypes. base: all base classes, by the learned class weights. both: together."""
    implants: bool = False
    """Train implants on each task's supports, and compare them with prototypes on the same tasks."""
    method: tuple[MethodName, ...] = ()
    """Methods to compare on the same tasks, with paired differences from the first; `implanting info --methods` lists
    them. Default: the method the base was trained for, which is prototypes for most."""
    half: bool = False
    """Keep the base activations that implants read in half precision."""
    cache: Path | None = None
    """Keep these activations in this folder for other runs."""
    workers: int = 1
    """Processes on this machine that share the tasks, with OMP_NUM_THREADS threads each, or one if that is not set."""
    save_tasks: Path | None = None
    """Write the tasks to this file (.npz), for other people's code."""
    save_results: Path | None = None
    """Write the accuracy of every task and the confusion of classes to this file (.npz)."""
    overwrite: bool = False
    """Let --save-tasks and --save-results replace files of another kind."""
    json: bool = False
    """End with one JSON document on stdout, which also has the accuracy of each class."""
    pooling: InferenceConfig = field(default_factory=InferenceConfig)
    adapt: ImplantConfig = field(default_factory=ImplantConfig)
    rivals: RivalConfig = field(default_factory=RivalConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def check(self) -> None:
        """Check single settings; contradictions between settings raise errors later, where they are used together."""
        require(self.workers >= 1, "workers", self.workers, "1 or more")
        check_cores("workers", self.workers)
        require(len(self.shot) >= 1, "shot", "empty", "one number or more")
        if self.implants and self.method:
            raise ConfigError(
                "`implants` and `method` both select what to test: leave out `implants`, and name it as a method"
            )
        for setting, path, array in (
            ("save_tasks", self.save_tasks, b"labels.npy"),
            ("save_results", self.save_results, b"per_task.npy"),
        ):
            if path:
                replaces, inputs = holds(array), (self.base, self.data)
                check_destination(path, setting, ".npz", replaces=replaces, inputs=inputs, overwrite=self.overwrite)

    def methods(self, base: BaseNetwork) -> tuple[MethodName, ...]:
        """The named methods or, if none are named, the method of the system that the base was trained by."""
        if self.method or self.implants or base.method == "cosine":
            return tuple(dict.fromkeys(self.method))
        return (base.method,)

    def approaches(self, base: BaseNetwork) -> list[Approach]:
        """The named methods or, if none are named, prototypes and the requested variants.

        The variants are prototypes with views, implants, and implants only where they help.
        """
        if methods := self.methods(base):
            return [approach_of(name, self.pooling, self.adapt, self.rivals, self.classes) for name in methods]
        asked = Approach(self.pooling, self.adapt if self.implants else None, self.classes)
        without = replace(asked, implants=None)
        approaches = [replace(without, pooling=replace(self.pooling, support_views=1, query_views=1)), without]
        if asked.implants is not None:
            always = replace(asked.implants, implant_decision="always")
            approaches += [replace(asked, implants=always), asked]
        return list(dict.fromkeys(approaches))

    def task_configs(self) -> list[TaskConfig]:
        """The task settings for each number of shots; base classes do not depend on it."""
        shots = self.shot[:1] if self.classes == "base" else dict.fromkeys(self.shot)
        return [TaskConfig(self.way, shot, self.queries, self.tasks, self.seed) for shot in shots]

    def trials(self, base: BaseNetwork) -> list[Trial]:
        """The trials to compare, without those that need more supports."""
        pairs = [(approach, config) for approach in self.approaches(base) for config in self.task_configs()]
        return [Trial(approach, config) for approach, config in pairs if approach.works_with(config.shot)]


def main(arguments: Sequence[str]) -> int:
    """Check everything once before starting workers, then compute the results."""
    command = parse(Evaluate, "evaluate", arguments)
    command.check()
    command.task_configs()  # errors in them are reported before the base is read
    set_threads(command.run.threads)
    device = choose_device(command.run.device)
    base, began = load_base(command.base, str(device)), time.monotonic()
    trials = command.trials(base)
    tested = Tested(base, command.base, _read_images(command, base), command.classes)
    comparison = compare(base, tested.images, trials, half=command.half, cache=command.cache, progress=show_progress)
    if command.save_tasks and rank() == 0:
        write_arrays(command.save_tasks, task_arrays(tested, command.task_configs()))
    if command.workers > 1 and world_size() == 1:
        del tested, comparison  # made only to report errors once; each worker makes its own
        return launch(command.workers, "evaluate", arguments)
    say_remarks(tested, command.pooling)
    with process_group(device):
        results = [result for _, result in comparison]
    say_what_is_left_out(command.approaches(base), command.task_configs())
    tell(command, tested, results, time.monotonic() - began)
    return 0


def tell(command: Evaluate, tested: Tested, results: Sequence[Result], seconds: float) -> None:
    """Print the results, and write them if requested."""
    if command.json:
        print_json(dataclasses.asdict(command), seconds, rows_of(tested, results), images=tested.described())
    else:
        show(tested, results)
    if command.save_results and rank() == 0:  # last, so that a full disk loses no results
        write_arrays(command.save_results, result_arrays(tested, results))


def _read_images(command: Evaluate, base: BaseNetwork) -> TaskImages:
    read = partial(_read_split, command, base)
    novel = None if command.classes == "base" else read(command.split)
    trained = _read_trained(command, base, read)
    if command.classes == "novel":
        return TaskImages(novel, trained=trained)
    if base.description is None:
        raise ConfigError(
            f"--classes {command.classes}: {base.name} comes without its base classes' images and weights"
        )
    return TaskImages(novel, held_out_images(base.description, read), trained)


def _read_trained(command: Evaluate, base: BaseNetwork, read: Callable[[str], ImageSet]) -> ImageSet | None:
    """Read the images that the base was trained on, if a method needs them and the data has them."""
    if not any(approach.reads_trained_images for approach in command.approaches(base)):
        return None
    try:
        trained = read("train")
    except SplitMissing:
        return None
    held_out = base.description.held_out if base.description else ()
    return trained.without(torch.tensor(held_out)) if held_out else trained


def _read_split(command: Evaluate, base: BaseNetwork, split: str) -> ImageSet:
    """Read a split of the data, with images resized to the base's training size."""
    return read_dataset(
        command.data,
        split,
        splits=command.splits,
        default_splits=base.data.splits,
        split_seed=base.data.split_seed,
        image_size=base.preprocessing.square_size,
        progress=show_progress,
    )
