"""`implanting bench`: speed and memory as ratios in one run."""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import torch
import tyro

from implanting.bench import memory, pretrain, processes
from implanting.commands.parsing import parse
from implanting.config import RunConfig
from implanting.console import print_json, print_table, say, show_progress


@dataclass(frozen=True)
class Bench:
    """Speed and memory on this machine, as ratios: what is compared takes turns in one run, and the best turn counts.

    pretrain: training images a second at 32 px against the usual loop (DataLoader with 2 workers, PIL transforms an
    image at a time, NCHW), the share of the convolutions, and the peak memory of reading a data set.
    """

    subject: Annotated[Literal["pretrain"], tyro.conf.Positional] = "pretrain"
    """What to measure."""
    widths: tuple[int, ...] = (64, 32)
    """Widths of ResNet-12."""
    batch_size: int = 128
    """Images a step."""
    steps: int = 6
    """Steps a turn."""
    rounds: int = 3
    """Turns of each contestant, after one to warm up."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: RunConfig = field(default_factory=RunConfig)


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    command = parse(Bench, "bench", arguments)
    if command.run.threads:
        torch.set_num_threads(command.run.threads)
    began = time.monotonic()
    rows = []
    for width in command.widths:
        say(f"width {width}: {command.rounds + 1} turns each of {command.steps} steps of {command.batch_size} images")
        rows.append(pretrain.compare(width, command.batch_size, command.steps, command.rounds, show_progress))
    say("one process of two threads against two of one")
    layouts = processes.compare(min(command.widths), 5 * command.steps, 2)
    say("peak memory of reading")
    ratios = memory.reading_ratios()
    if command.json:
        further = {"layouts": layouts, "reading_memory": ratios}
        print_json(dataclasses.asdict(command), time.monotonic() - began, rows, **further)
    else:
        show(command, rows, layouts, ratios)
    return 0


def show(command: Bench, rows: list[dict[str, Any]], layouts: dict[str, float], ratios: dict[str, float]) -> None:
    """The tables."""
    print_table(
        "training, images/s at 32 px",
        ["width", "ours", "usual loop", "ratio"],
        [[str(row["width"]), f"{row['ours']:.0f}", f"{row['usual']:.0f}", f"{row['ratio']:.2f}"] for row in rows],
        f"best of {command.rounds} turns of {command.steps} steps of {command.batch_size} images each, taken in turn; "
        f"{torch.get_num_threads()} threads; usual loop: DataLoader with 2 workers, PIL transforms, NCHW",
    )
    print_table(
        "where a step's time goes",
        ["", *(f"width {row['width']}" for row in rows)],
        [[kind, *(f"{100 * row['shares'][kind]:.1f} %" for row in rows)] for kind in rows[0]["shares"]],
    )
    print_table(
        f"processes and threads, width {min(command.widths)}",
        ["", "images/s"],
        [[name, f"{speed:.0f}"] for name, speed in layouts.items()],
        "as `implanting pretrain` and `torchrun -m implanting pretrain` report it, best of 2",
    )
    print_table(
        "peak memory of reading a data set",
        ["", "times the tensor"],
        [[name, f"{ratio:.2f}"] for name, ratio in ratios.items()],
    )
