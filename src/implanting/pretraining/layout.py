"""Processes and threads: a short trial of two ways to use all cores, since neither is the faster one on every machine.

One process of many threads waits at each small operation; several processes share only gradients, but each has its
own small batch. The trial takes some steps on noise, with the settings of the run, in processes of its own. It is made
only if asked for: batch norm sees the images of its own process, so that weights depend on the number of processes.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from typing import NamedTuple

import msgspec
import torch

from implanting.config import DataConfig, PretrainConfig
from implanting.datasets import ImageSet
from implanting.errors import ConfigError, ImplantingError
from implanting.pretraining.events import Event, Stepped
from implanting.pretraining.training import pretrain
from implanting.runtime import Progress, cores, rank, silent

STEPS, FIRST = 10, 3
"""Steps of a trial, and how many of the first are not timed."""

SMALLEST_SHARE = 16
"""Images of a batch below which batch norm would be poor; a process gets no fewer."""

SIDE, CLASSES, PER_CLASS = 32, 20, 60
"""Side in pixels of the images of noise where none is set, and at least so many classes and images of each."""

PROGRAM = "import sys; from implanting.pretraining.layout import time_steps; time_steps(sys.argv[1])"
"""What a process of a trial runs."""

WATCH = 0.05
"""Seconds between looks at the processes of a trial."""


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
    if config.method == "cosine":
        shared, most = config.batch_size, config.batch_size // SMALLEST_SHARE
    else:
        shared = most = config.episode.episodes
    if config.method in ("tadam", "gidaris"):  # the one cannot be shared; of the other, little is left to share
        most = 1
    several = [number for number in range(2, min(available, most) + 1) if shared % number == 0]
    return [Layout(1, available), *(Layout(number, available // number) for number in several[-1:])]


def fastest_layout(config: PretrainConfig, progress: Progress = silent) -> tuple[Layout, dict[Layout, float]]:
    """The layout that trains the most images per second here, and the speed of each that was tried."""
    possible = layouts(config, cores())
    if len(possible) == 1:
        return possible[0], {}
    tried = progress(possible, "trying processes and threads", len(possible))
    speeds = {each: training_speed(config, each) for each in tried}
    return max(possible, key=speeds.__getitem__), speeds


def training_speed(config: PretrainConfig, layout: Layout, steps: int = STEPS) -> float:
    """Images per second of training with these settings on noise, in processes of its own."""
    settings = msgspec.json.encode(_shortened(config, steps)).decode()
    command = [sys.executable, "-c", PROGRAM, settings]
    shared = {**os.environ, "OMP_NUM_THREADS": str(layout.threads), "PYTHONSAFEPATH": "1"}
    shared |= {"WORLD_SIZE": str(layout.processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    workers = [
        subprocess.Popen(  # noqa: S603 (our own command)
            command, env={**shared, "RANK": str(number)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for number in range(layout.processes)
    ]
    try:
        while workers[0].poll() is None and not any(worker.poll() for worker in workers):
            time.sleep(WATCH)
    finally:
        for worker in workers:
            worker.kill()
        said, *_ = (worker.communicate()[0] for worker in workers)
    answer = json.loads(said) if said else {}
    if "speed" not in answer:
        raise ConfigError(f"the trial of {layout} failed: {answer.get('fault', 'is there memory for it?')}")
    return float(answer["speed"])


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _shortened(config: PretrainConfig, steps: int) -> PretrainConfig:
    """The settings of a few steps on noise of the size that images have at the end of training."""
    side = config.data.image_size or SIDE
    return replace(
        config,
        data=DataConfig(image_size=side),
        augment=replace(config.augment, crop_padding=min(config.augment.crop_padding, side // 4)),
        start=None,
        teacher=None,
        shrink_size=None,
        epochs=None,
        iterations=steps,
        validation_tasks=0,
        validate_every=0.0,
        save_every=0.0,
    )


def _noise(config: PretrainConfig) -> ImageSet:
    side, episode = config.data.image_size or SIDE, config.episode
    classes, per_class = max(CLASSES, episode.train_way), max(PER_CLASS, episode.train_shot + episode.train_queries)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (classes * per_class, side, side, 3), dtype=torch.uint8, generator=generator)
    names = tuple(str(number) for number in range(classes))
    return ImageSet(pixels, torch.arange(len(pixels)) % classes, names, "noise", "as stored")


def time_steps(settings: str) -> None:
    """In a process of a trial: train as the settings say, and print the images per second of a usual step."""
    config = msgspec.json.decode(settings, type=PretrainConfig)
    speeds: list[float] = []

    def observe(event: Event) -> None:
        if isinstance(event, Stepped):
            speeds.append(event.images_per_second)

    answer: dict[str, object]
    try:
        pretrain(config, _noise(config), None, None, device="cpu", observe=observe)
        answer = {"speed": statistics.median(speeds[FIRST:])} if speeds else {}
    except ImplantingError as fault:
        answer = {"fault": str(fault)}
    if rank() == 0:
        sys.stdout.write(json.dumps(answer))
        sys.stdout.flush()
    os._exit(0)  # threads that PyTorch leaves behind may abort a process that goes down slowly
