"""`implanting bench pretrain`: how fast stage 1 trains, and the memory that reading takes."""

from dataclasses import dataclass, field
from typing import Any

import torch

from implanting.bench import memory, pretrain, processes
from implanting.config import ThreadsConfig
from implanting.console import print_table, say, show_progress


@dataclass(frozen=True)
class Pretrain:
    """Training images a second at 32 px against the usual loop (DataLoader with 2 workers, PIL transforms an image at a
    time, NCHW), the share of the convolutions, processes against threads, and the peak memory of reading a data set.
    """

    widths: tuple[int, ...] = (64, 32)
    """Widths of ResNet-12."""
    batch_size: int = 64
    """Images a step."""
    steps: int = 6
    """Steps a turn."""
    rounds: int = 3
    """Turns of each contestant, after one to warm up; of processes and threads, two at most."""
    memory_images: int = 72_000
    """Images in the pickle whose reading is measured; folders hold a ninth as many."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Rows for each width, and what is measured once."""
        rows = [
            pretrain.compare(width, self.batch_size, self.steps, self.rounds, show_progress) for width in self.widths
        ]
        say("one process of two threads against two of one")
        layouts = processes.compare(min(self.widths), 10 * self.steps, min(2, self.rounds))
        say("peak memory of reading")
        return rows, {"layouts": layouts, "reading_memory": memory.reading_ratios(self.memory_images)}

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """The tables."""
        print_table(
            "training, images/s at 32 px",
            ["width", "ours", "usual loop", "ratio"],
            [[str(row["width"]), f"{row['ours']:.0f}", f"{row['usual']:.0f}", f"{row['ratio']:.2f}"] for row in rows],
            f"best of {self.rounds} turns of {self.steps} steps of {self.batch_size} images each, taken in turn; "
            f"{torch.get_num_threads()} threads; usual loop: DataLoader with 2 workers, PIL transforms, NCHW",
        )
        print_table(
            "where a step's time goes",
            ["", *(f"width {row['width']}, {threads}" for row in rows for threads in row["shares"])],
            [
                [kind, *(f"{100 * shares[kind]:.1f} %" for row in rows for shares in row["shares"].values())]
                for kind in pretrain.KINDS_AND_OTHER
            ],
            "by the profiler's own time of each operator",
        )
        print_table(
            f"processes and threads, width {min(self.widths)}",
            ["", "images/s"],
            [[name, f"{speed:.0f}"] for name, speed in once["layouts"].items()],
            f"as `implanting pretrain` and `torchrun -m implanting pretrain` report it, best of {min(2, self.rounds)}",
        )
        print_table(
            "peak memory of reading a data set",
            ["", "times the tensor"],
            [[name, f"{ratio:.2f}"] for name, ratio in once["reading_memory"].items()],
        )
