"""`implanting reproduce`: a table of the paper or its Figure 3, from a data set on disk."""

import io
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from typing import TypeVar

import torch

from implanting.cli.parsing import parse
from implanting.cli.verbs import reproduce_figure, reproduce_table
from implanting.cli.verbs.reproduce_settings import Reproduce
from implanting.cli.workers import launch
from implanting.config import require
from implanting.console import say
from implanting.runtime import check_cores, choose_device, process_group, set_threads, world_size

Plan = TypeVar("Plan")
Made = TypeVar("Made")


def main(arguments: Sequence[str]) -> int:
    """Parse, then make the table or the figure."""
    command = parse(Reproduce, "reproduce", arguments)
    require(command.workers >= 1, "workers", command.workers, "1 or more")
    check_cores("workers", command.workers)
    set_threads(command.run.threads)
    if command.what == "figure3":
        figure = reproduce_figure
        return _make(command, arguments, figure.prepare, figure.train_and_look, figure.report)
    table = reproduce_table
    return _make(command, arguments, table.prepare, table.train_and_test, table.report)


def _make(
    command: Reproduce,
    arguments: Sequence[str],
    prepare: Callable[[Reproduce], Plan],
    train: Callable[[Reproduce, Plan, torch.device], Made | None],
    report: Callable[[Reproduce, Plan, Made, float], None],
) -> int:
    """Check everything first; then train, test, and report."""
    device = choose_device(command.run.device)
    if command.workers > 1 and world_size() == 1:
        with redirect_stderr(io.StringIO()):  # errors are raised here, once; all else is said by the workers
            prepare(command)
        return launch(command.workers, "reproduce", arguments)
    began = time.monotonic()
    plan = prepare(command)
    with process_group(device):
        made = train(command, plan, device)
    if made is None:
        say(f"stopped; the same command continues from what is in {command.out}")
        return 130
    report(command, plan, made, time.monotonic() - began)
    return 0
