"""`implanting bench adapt`: how fast stage 2 trains implants, and the memory of evaluating with them."""

from dataclasses import dataclass, field
from typing import Any

import torch

from implanting.bench import adapt, memory
from implanting.bench.timing import MATRIX
from implanting.commands.bench_growth import show_growth
from implanting.config import ThreadsConfig
from implanting.console import print_table, say, show_progress


@dataclass(frozen=True)
class Adapt:
    """Adapting 5-way 5-shot tasks on cached activations, against the naive code that runs the whole network on the
    supports at every epoch, one task at a time, and against a loop over tasks on the same cache.
    """

    sizes: tuple[int, ...] = (32, 84)
    """Sides of the images in pixels."""
    width: int = 64
    """Width of ResNet-12."""
    tasks: int = 8
    """Tasks adapted together."""
    epochs: int = 5
    """Epochs of each contestant (of the naive code 2); the time of all of them grows in proportion."""
    rounds: int = 3
    """Turns of each contestant, after one to warm up."""
    memory_images: int = 12_000
    """Images in the cache whose memory is measured."""
    memory_size: int = 32
    """Their side in pixels; 84 takes 5 GB of memory."""
    memory_tasks: tuple[int, ...] = (8, 64, 256)
    """Numbers of tasks for which it is measured."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """A row for each image size; growth at the smallest; peak memory."""
        shape = (self.width, self.tasks, self.epochs, self.rounds)
        rows = []
        for size in self.sizes:
            say(f"adapting at {size} px")
            rows.append(adapt.compare(size, *shape, show_progress))
        say("growth")
        growth = adapt.linear_growth(min(self.sizes), self.width, self.tasks, self.rounds, show_progress)
        say("peak memory of evaluating with implants")
        peaks = memory.implant_peaks(self.memory_images, self.memory_size, self.width, self.memory_tasks, show_progress)
        return rows, {"growth": growth, "peaks": peaks}

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """The tables."""
        self.show_speed(rows)
        show_growth(once["growth"], self.rounds)
        self.show_peaks(once["peaks"])

    def show_speed(self, rows: list[dict[str, Any]]) -> None:
        """Adapting against both rivals, and against the speed of a matrix product."""
        print_table(
            f"adapting 5-way 5-shot tasks, width {self.width}",
            ["px", "ms a task and epoch", "over naive", "over one task at a time", "share of peak", "on one thread"],
            [
                [
                    str(row["size"]),
                    f"{1e3 * row['ours'] / self.epochs:.2f}",
                    f"{row['over_naive']:.1f}",
                    f"{row['over_one_task']:.2f}",
                    f"{100 * row['share_of_peak']:.0f} %",
                    f"{100 * row['share_of_peak_on_one_thread']:.0f} %",
                ]
                for row in rows
            ],
            f"best of {self.rounds} turns of {self.epochs} epochs, taken in turn; {self.tasks} tasks together; "
            f"{torch.get_num_threads()} threads, but for the last column; "
            f"peak: a product of {MATRIX} x {MATRIX} matrices in the same run, by as many threads",
        )

    def show_peaks(self, rows: list[dict[str, Any]]) -> None:
        """Memory by the number of tasks."""
        print_table(
            f"peak memory of evaluating with implants, width {self.width}, half-precision cache of noise",
            ["images", "px", "tasks", "cache, GB", "peak of the process, GB"],
            [
                [
                    *(str(row[name]) for name in ("images", "size", "tasks")),
                    *(f"{row[name] / 1e9:.2f}" for name in ("cache", "peak")),
                ]
                for row in rows
            ],
        )
