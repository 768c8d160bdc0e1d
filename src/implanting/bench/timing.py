"""Timing on a shared, noisy machine: interleave the contestants, repeat, take the best."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from implanting.console import print_table
from implanting.runtime import Progress, silent

Work = Callable[[], object]

FACTOR = 8
"""How many times more work is done to measure growth."""

MATRIX = 2_000
"""Rows and columns of the matrices whose product measures the machine's peak."""


def best_seconds(
    contestants: Mapping[str, Work], rounds: int, progress: Progress = silent, what: str = "measuring"
) -> dict[str, float]:
    """The best time of each contestant over several rounds, in which all take turns; the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    turns = [(number, name) for number in range(rounds + 1) for name in contestants]
    for number, name in progress(turns, what, len(turns)):
        began = time.perf_counter()
        contestants[name]()
        if number:
            times[name].append(time.perf_counter() - began)
    return {name: min(values) for name, values in times.items()}


def growth(
    kinds: Mapping[str, tuple[int, Callable[[int], object]]], rounds: int, progress: Progress = silent
) -> list[dict[str, Any]]:
    """For each kind of work: seconds of some units and of eight times as many, and the ratio of the cost per unit.

    A kind of work is a number of units and a function that does that many. The ratio is 1 if cost is linear, and less
    if there are fixed costs.
    """
    contestants: dict[str, Work] = {}
    for kind, (units, work) in kinds.items():
        contestants[f"few {kind}"] = partial(work, units)
        contestants[f"many {kind}"] = partial(work, FACTOR * units)
    seconds = best_seconds(contestants, rounds, progress, "measuring growth")
    rows = []
    for kind, (units, _) in kinds.items():
        few, many = seconds[f"few {kind}"], seconds[f"many {kind}"]
        rows.append({"kind": kind, "units": units, "few": few, "many": many, "ratio": many / few / FACTOR})
    return rows


def on_one_thread(work: Work) -> Work:
    """The same work, done by one thread."""

    def run() -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            work()
        finally:
            torch.set_num_threads(threads)

    return run


def show_growth(rows: list[dict[str, Any]], rounds: int) -> None:
    """Print the cost of eight times the work."""
    print_table(
        "growth",
        ["", "from", "to", "seconds", "seconds", "ratio of the cost per unit"],
        [
            [
                row["kind"],
                str(row["units"]),
                str(FACTOR * row["units"]),
                f"{row['few']:.3f}",
                f"{row['many']:.3f}",
                f"{row['ratio']:.2f}",
            ]
            for row in rows
        ],
        f"best of {rounds} interleaved turns; 1 is linear, less means that there are fixed costs",
    )
