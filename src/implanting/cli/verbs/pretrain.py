"""`implanting pretrain`: stage 1, from a data set on disk to a base network."""

import argparse
import dataclasses
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

import torch
import tyro

from implanting.base import BaseDescription, BaseNetwork, TrainingFacts, load_base
from implanting.cli.parsing import parse
from implanting.cli.training_display import TrainingDisplay
from implanting.cli.workers import launch
from implanting.config import PretrainConfig, RunConfig, TrainingMethod, require
from implanting.console import print_json, print_table, say, show_progress
from implanting.datasets import ImageSet, read_dataset
from implanting.errors import ConfigError, SplitMissing
from implanting.pretraining import (
    RECIPES,
    Event,
    Finished,
    Layout,
    Output,
    RecipeName,
    Started,
    Stopped,
    TrainingLog,
    fastest_layout,
    gain_of_bf16,
    plot_training,
    pretrain,
    with_method,
)
from implanting.runtime import choose_device, cores, restarted, set_threads, world_size


@dataclass(frozen=True)
class Pretrain:
    """Stage 1: train a network on base classes with a cosine classifier, at every location (dense) or pooled.

    With --method, train like one of the systems that the paper compares with. Writes the base network to --out, and
    next to it a log (.jsonl) and the curves (.png). A run that was stopped or killed continues with --resume.
    --workers trains in several processes on this machine, `torchrun -m implanting pretrain` on several machines.
    """

    data: Path
    """A data set: CIFAR-100, FC100, CIFAR-FS or miniImageNet as distributed, or folders of images (docs/data.md)."""
    out: Path
    """The base network's file, such as base.safetensors."""
    recipe: RecipeName = "cpu"
    """Values for all settings below; a flag overrides one of them. `implanting info --recipes` describes them."""
    resume: bool = False
    """Continue the run in --out, or start a new one if there is none."""
    overwrite: bool = False
    """Replace an existing file at --out."""
    workers: int | Literal["auto"] = 1
    """Processes on this machine that share each batch, with OMP_NUM_THREADS threads each, or one if that is not set.
    auto: one of all threads or several, whichever is faster in a trial of ten steps each; weights depend on it."""
    json: bool = False
    """End with one JSON document on stdout."""
    config: PretrainConfig = field(default_factory=lambda: RECIPES["cpu"].config)
    run: RunConfig = field(default_factory=RunConfig)


def main(arguments: Sequence[str]) -> int:
    """Parse, read the data, train, and report the result."""
    recipe, config = _recipe_from(arguments)
    missing: Any = tyro.MISSING
    command = parse(Pretrain, "pretrain", arguments, Pretrain(data=missing, out=missing, recipe=recipe, config=config))
    # A worker restarted by torchrun continues from what its run has written, however the run was started.
    output = Output(command.out, command.resume or restarted(), command.overwrite and not restarted())
    set_threads(command.run.threads)
    device = choose_device(command.run.device)
    if world_size() == 1 and (workers := _workers(command, device)) > 1:
        return launch(workers, "pretrain", arguments)
    if command.config.precision == "bf16" and device.type == "cpu" and (gain := gain_of_bf16()) < 1:
        say(f"bf16 makes training slower here (a convolution is {gain:.2f} times as fast): leave out --precision")
    base_images, validation = read_splits(command.data, command.config)
    began = time.monotonic()
    base = train(command.config, base_images, validation, output, device)
    description = cast(BaseDescription, base.description)  # every network trained here has one
    return report(command, description.training, time.monotonic() - began)


def _workers(command: Pretrain, device: torch.device) -> int:
    """The number of processes to train in; for `auto`, also sets the number of their threads."""
    if command.workers != "auto":
        require(command.workers >= 1, "workers", command.workers, "1 or more, or auto")
        return command.workers
    if command.run.threads is not None:
        raise ConfigError("--workers auto also chooses the threads: leave out --threads, or name a number of workers")
    if device.type != "cpu":
        say("training in one process: --workers auto is for processors")
        return 1
    layout = _layout(command)
    os.environ["OMP_NUM_THREADS"] = str(layout.threads)  # of several processes
    set_threads(layout.threads)  # of this one
    return layout.processes


def _layout(command: Pretrain) -> Layout:
    """The processes and threads of the run that is resumed, or those that a trial finds to be faster."""
    if command.resume and command.out.exists():
        description = cast(BaseDescription, load_base(command.out).description)
        layout = Layout(description.training.processes, max(1, cores() // description.training.processes))
        say(f"training in {layout}, as before")
        return layout
    layout, speeds = fastest_layout(_with_image_size(command), show_progress)
    tried = "; ".join(f"{each}: {speed:.0f} images/s" for each, speed in speeds.items()) or "nothing else is possible"
    say(f"training in {layout} ({tried})")
    return layout


def _with_image_size(command: Pretrain) -> PretrainConfig:
    """The settings, with the size of the images as they are stored if none is set."""
    config = command.config
    if config.data.image_size is not None:
        return config
    side = max(_read(command.data, config, "train").images.shape[1:3])
    return dataclasses.replace(config, data=dataclasses.replace(config.data, image_size=side))


def _recipe_from(arguments: Sequence[str]) -> tuple[RecipeName, PretrainConfig]:
    """The recipe named by `--recipe`, changed as `--method` needs; its values become the defaults of the other flags.

    `--epochs` and `--iterations` replace each other, so one given on the command line drops the recipe's other one.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--recipe", default="cpu")
    parser.add_argument("--method", default="cosine")
    parser.add_argument("--start")
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--iterations", type=int)
    try:
        given, _ = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError as fault:
        raise ConfigError(f"{fault}; `implanting pretrain --help` lists all options") from None
    if given.recipe not in RECIPES:
        raise ConfigError(f"--recipe {given.recipe} is unknown; there are: {', '.join(RECIPES)}")
    if given.method not in get_args(TrainingMethod):
        known = ", ".join(get_args(TrainingMethod))
        raise ConfigError(f"--method {given.method} is unknown to training; there are: {known}")
    config = with_method(RECIPES[given.recipe].config, given.method, given.start)
    if given.epochs is not None or given.iterations is not None:
        config = dataclasses.replace(config, epochs=given.epochs, iterations=given.iterations)
    return given.recipe, config


def train(
    config: PretrainConfig,
    base_images: ImageSet,
    validation: ImageSet | None,
    out: Output,
    device: torch.device,
) -> BaseNetwork:
    """Run stage 1 with a display, a log and the curves; a signal stops it after saving its current state."""
    log, said, begun = TrainingLog(out.path.with_suffix(".jsonl")), set[str](), list[Event]()
    with _stop_on_signal(begun) as stopped, TrainingDisplay() as display:

        def observe(event: Event) -> None:
            if isinstance(event, Started):
                begun.append(event)
            display(event)
            with _going_on(said):
                log(event)
                if isinstance(event, Stopped | Finished):
                    plot_training(log.path, out.path.with_suffix(".png"))

        return pretrain(
            config,
            base_images,
            validation,
            out,
            device=device,
            observe=observe,
            stop=lambda: bool(stopped),
            progress=show_progress,
        )


def read_splits(data: Path, config: PretrainConfig) -> tuple[ImageSet, ImageSet | None]:
    """Read the base classes, and the validation classes if there are any."""
    base_images = _read(data, config, "train")
    say(
        f"{base_images.name}: {len(base_images)} images of {len(base_images.class_names)} base classes, "
        f"{base_images.images.shape[2]} x {base_images.images.shape[1]} px ({base_images.resizing})"
    )
    if base_images.skipped:
        say(f"skipped {base_images.skipped} files without an image's extension")
    if not config.validation_tasks:
        return base_images, None
    try:
        return base_images, _read(data, config, "val")
    except SplitMissing:
        say("no few-shot validation: the data has no split 'val'")
        return base_images, None


def _read(data: Path, config: PretrainConfig, split: str) -> ImageSet:
    settings = config.data
    return read_dataset(
        data,
        split,
        splits=settings.splits,
        split_seed=settings.split_seed,
        image_size=settings.image_size,
        progress=show_progress,
    )


@contextmanager
def _going_on(said: set[str]) -> Iterator[None]:
    """Report once if a log or curve cannot be written; training continues, as it is worth more than its log."""
    try:
        yield
    except ConfigError as error:
        if str(error) not in said:
            said.add(str(error))
            say(f"training continues without this file: {error}")


@contextmanager
def _stop_on_signal(begun: list[Event]) -> Iterator[list[int]]:
    """Yield a list that is filled when Ctrl-C or SIGTERM asks the run to stop; a second Ctrl-C stops at once.

    So does the first while `begun` is empty, as nothing is lost before the first step, and a teacher may take long; of
    several processes only the first knows that, and they must stop together.
    """
    received: list[int] = []

    def note(number: int, _frame: Any) -> None:
        if (not begun and world_size() == 1) or (received and number == signal.SIGINT):
            raise KeyboardInterrupt
        received.append(number)
        say("stopping after this step; press Ctrl-C again to stop at once")

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def report(command: Pretrain, training: TrainingFacts, seconds: float) -> int:
    """Print a table or the JSON document, and return the exit status."""
    if not training.finished:
        say(f"stopped at step {training.step} of {training.steps}; the same command with --resume continues")
        return 130
    last = training.validation[-1:]
    if command.json:
        settings = dataclasses.asdict(command) | {"seed": command.config.seed}
        print_json(settings, seconds, [each.row() for each in last], training=training.document())
    else:
        print_table(
            f"base network {command.out}",
            ["", ""],
            [
                ["steps", str(training.steps)],
                ["loss", f"{training.loss:.3f}"],
                ["accuracy on base images, augmented", f"{100 * (training.accuracy or 0):.1f} %"],
                ["tau", f"{training.tau:.2f}"],
                ["images/s", f"{training.images_per_second:.0f}"],
                *(["validation classes", str(each)] for each in last),
            ],
        )
    return 0
