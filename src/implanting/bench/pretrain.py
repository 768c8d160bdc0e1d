"""Training speed of stage 1 compared with the usual loop, and the share of each kind of operation."""

import dataclasses
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from implanting.bench import memory, processes
from implanting.bench.noise import random_images
from implanting.bench.timing import Work, best_seconds, on_one_thread
from implanting.bench.usual_loop import UsualLoop
from implanting.config import NetworkConfig, Precision, ThreadsConfig
from implanting.console import print_table, say, show_progress
from implanting.datasets import ImageSet
from implanting.pretraining import RECIPES, Run, batch, prepare
from implanting.runtime import Progress, silent

IMAGES, CLASSES, SIZE = 2_048, 60, 32
"""Number of training images, of classes (as many as in FC100), and the side of an image in pixels."""

KINDS = {
    "convolutions": ("convolution", "conv2d"),
    "batch norm": ("batch_norm",),
    "swish": ("silu",),
    "pooling": ("max_pool",),
    "optimiser": ("sgd", "_foreach", "_fused"),
}
"""Parts of operators' names by which the profile is summed up."""

PRECISIONS: tuple[Precision, ...] = ("single", "bf16")
SHOWN = {"ours": ".0f", "usual": ".0f", "ratio": ".2f", "bf16": ".0f", "gain_of_bf16": ".2f"}
"""What the first table shows of each width, with its decimals."""

AUGMENTATION = "augmentation and normalisation"
KINDS_AND_OTHER = (*KINDS, AUGMENTATION, "other")


def start(width: int, images: ImageSet, batch_size: int, precision: Precision = "single") -> Run:
    """A run of the `cpu` recipe at another width, with images of full size from the start, as in the usual loop."""
    changes: dict[str, Any] = {
        "architecture": NetworkConfig(width=width),
        "batch_size": batch_size,
        "precision": precision,
    }
    config = dataclasses.replace(RECIPES["cpu"].config, **changes, shrink_size=None)
    run = prepare(config, images, None, torch.device("cpu"))
    run.model.train()
    return run


def compare(width: int, batch_size: int, steps: int, rounds: int, progress: Progress = silent) -> dict[str, Any]:
    """Images per second of our step, in both precisions, and of the usual loop, in interleaved turns."""
    images = random_images(IMAGES, CLASSES, SIZE)
    run, lower = (start(width, images, batch_size, precision) for precision in PRECISIONS)

    def take(steps_of: Run) -> None:
        for _ in range(steps):
            steps_of.train_step(steps_of.model)

    contestants: dict[str, Work] = {
        "ours": partial(take, run),
        "bf16": partial(take, lower),
        "usual": UsualLoop(run.config, images, steps),
    }
    seconds = best_seconds(contestants, rounds, progress)
    speed = {name: steps * batch_size / value for name, value in seconds.items()}
    threads = torch.get_num_threads()
    by_threads = {f"{threads} threads": shares(run)} if threads > 1 else {}
    on_one_thread(lambda: by_threads.update({"1 thread": shares(run)}))()
    ratios = {"ratio": speed["ours"] / speed["usual"], "gain_of_bf16": speed["bf16"] / speed["ours"]}
    return {"width": width, **speed, **ratios, "shares": by_threads}


def shares(run: Run, steps: int = 4) -> dict[str, float]:
    """The share of each kind of operation in the time of a step, by the profiler's self time."""
    began = time.perf_counter()
    for step in range(steps):
        run.description.normalisation(
            batch(run.images, run.config.augment, run.config.batch_size, run.config.seed, step)[0]
        )
    augmentation = time.perf_counter() - began
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        began = time.perf_counter()
        for _ in range(steps):
            run.train_step(run.model)
        total = time.perf_counter() - began
    spent = dict.fromkeys(KINDS, 0.0)
    for event in profiled.key_averages():
        for kind, names in KINDS.items():
            if any(name in event.key.lower() for name in names):
                spent[kind] += event.self_cpu_time_total / 1e6
                break
    result = {kind: seconds / total for kind, seconds in {**spent, AUGMENTATION: augmentation}.items()}
    return {**result, "other": 1 - sum(result.values())}


@dataclass(frozen=True)
class Pretrain:
    """Training images per second at 32 px compared with the usual loop (DataLoader with 2 workers, PIL transforms of
    one image at a time, NCHW) and with bf16, the share of each kind of operation, processes or threads, and peak
    memory of reading.
    """

    widths: tuple[int, ...] = (64, 32)
    """Widths of ResNet-12."""
    batch_size: int = 64
    """Images per step."""
    steps: int = 6
    """Steps per turn."""
    rounds: int = 3
    """Timed turns of each contestant, after one to warm up; for processes and threads at most two."""
    memory_images: int = 72_000
    """Images in the pickle whose reading is measured; the folders hold a ninth as many."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """One row per width, and the measurements that are made once."""
        rows = [compare(width, self.batch_size, self.steps, self.rounds, show_progress) for width in self.widths]
        say("one process of two threads, and two processes of one")
        layouts = processes.compare(min(self.widths), 10 * self.steps, min(2, self.rounds))
        say("peak memory of reading")
        return rows, {"layouts": layouts, "reading_memory": memory.reading_ratios(self.memory_images)}

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """Print the tables."""
        print_table(
            "training, images/s at 32 px",
            ["width", "ours", "usual loop", "ratio", "ours in bf16", "over single precision"],
            [[str(row["width"]), *(f"{row[name]:{form}}" for name, form in SHOWN.items())] for row in rows],
            f"best of {self.rounds} interleaved turns of {self.steps} steps of {self.batch_size} images each; "
            f"{torch.get_num_threads()} threads; usual loop: DataLoader with 2 workers, PIL transforms, NCHW",
        )
        print_table(
            "where a step's time goes",
            ["", *(f"width {row['width']}, {threads}" for row in rows for threads in row["shares"])],
            [
                [kind, *(f"{100 * shares[kind]:.1f} %" for row in rows for shares in row["shares"].values())]
                for kind in KINDS_AND_OTHER
            ],
            "by the profiler's self time of each operator",
        )
        print_table(
            f"processes and threads, width {min(self.widths)}",
            ["", "images/s"],
            [[name, f"{speed:.0f}"] for name, speed in once["layouts"].items()],
            f"median of the steps of a training on noise, best of {min(2, self.rounds)} turns",
        )
        print_table(
            "peak memory of reading a data set",
            ["", "times the tensor"],
            [[name, f"{ratio:.2f}"] for name, ratio in once["reading_memory"].items()],
        )
