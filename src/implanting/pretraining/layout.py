"""Processes and threads: a short trial of two ways to use all cores, since neither is the faster one on every machine.

One process of many threads waits at each small operation; several processes share only gradients, but each has its
own small batch. The trial takes some steps on noise, with the settings of the run, in processes of its own. It is made
only if asked for: batch norm sees the images of its own process, so that weights depend on the number of processes.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import torch

from implanting.config import DataConfig, PretrainConfig
from implanting.datasets import ImageSet
from implanting.errors import ConfigError
from implanting.pretraining.events import Event, Stepped
from implanting.pretraining.training import pretrain
from implanting.runtime import Progress, cores, rank, silent

STEPS, FIRST = 10, 3
"""Steps of a trial, and how many of the first are not timed."""

SMALLEST_SHARE = 16
"""Images of a batch below which batch norm would be poor; a process gets no fewer."""

SIDE, CLASSES, PER_CLASS = 32, 20, 60
"""Side in pixels of the images of noise where none is set, their classes (at least), and the images of each."""


class Layout(NamedTuple):
    """So many processes, of so many threads each."""

    processes: int
    threads: int

    def __str__(self) -> str:
        return f"{_some(self.processes, 'process')} of {_some(self.threads, 'thread')}"


def _some(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"


def layouts(config: PretrainConfig, available: int) -> list[Layout]:
    """The ways to train with these settings on so many cores: one process, and if possible as many as make sense."""
    one = Layout(1, available)
    if config.method in ("tadam", "gidaris"):  # trained in one process; a frozen network that answers once
        return [one]
    shared = config.batch_size // SMALLEST_SHARE if config.method == "cosine" else config.episode.episodes
    units = config.batch_size if config.method == "cosine" else config.episode.episodes
    several = [number for number in range(2, min(available, shared) + 1) if units % number == 0]
    return [one, *(Layout(number, available // number) for number in several[-1:])]


def fastest_layout(config: PretrainConfig, progress: Progress = silent) -> tuple[Layout, dict[Layout, float]]:
    """The layout that trains the most images per second here, and the speed of each that was tried."""
    possible = layouts(config, cores())
    if len(possible) == 1:
        return possible[0], {}
    speeds = {
        each: training_speed(config, each) for each in progress(possible, "trying processes and threads", len(possible))
    }
    return max(possible, key=speeds.__getitem__), speeds


def training_speed(config: PretrainConfig, layout: Layout, steps: int = STEPS) -> float:
    """Images per second of training with these settings on noise, in processes of its own."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(layout.processes)]
    settings = msgspec.json.encode(_shortened(config, steps)).decode()
    command = [sys.executable, *(launcher if layout.processes > 1 else []), "-m", __name__, settings]
    environment = {**os.environ, "OMP_NUM_THREADS": str(layout.threads), "PYTHONSAFEPATH": "1"}
    finished = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)  # noqa: S603 (our own command)
    if finished.returncode:
        reason = (finished.stderr.strip() or "it was killed").splitlines()[-1]
        raise ConfigError(f"`workers`: the trial of {layout} failed ({reason}): name a number instead of auto")
    return float(json.loads(finished.stdout.splitlines()[-1]))


def _shortened(config: PretrainConfig, steps: int) -> PretrainConfig:
    """The settings of a few steps on noise of the size that images have at the end of training."""
    return replace(
        config,
        data=DataConfig(image_size=config.data.image_size or SIDE),
        start=None,
        teacher=None,
        shrink_size=None,
        epochs=None,
        iterations=steps,
        validation_tasks=0,
    )


def _noise(side: int, classes: int) -> ImageSet:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (classes * PER_CLASS, side, side, 3), dtype=torch.uint8, generator=generator)
    names = tuple(str(number) for number in range(classes))
    return ImageSet(pixels, torch.arange(len(pixels)) % classes, names, "noise", "as stored")


def _main(arguments: Sequence[str]) -> None:
    """Train as the settings say, and print the images per second of a usual step."""
    config = msgspec.json.decode(arguments[0], type=PretrainConfig)
    steps: list[float] = []

    def observe(event: Event) -> None:
        if isinstance(event, Stepped):
            steps.append(event.images_per_second)

    images = _noise(config.data.image_size or SIDE, max(CLASSES, config.episode.train_way))
    pretrain(config, images, None, None, device="cpu", observe=observe)
    if rank() == 0:
        sys.stdout.write(json.dumps(statistics.median(steps[FIRST:])))
        sys.stdout.flush()
    os._exit(0)  # threads that PyTorch leaves behind may abort a process that goes down slowly


if __name__ == "__main__":
    _main(sys.argv[1:])
