"""Timing on a shared, noisy machine: interleave what is compared, repeat, take the best."""

import time
from collections.abc import Callable, Mapping

from implanting.progress import Progress, silent


def best_seconds(
    contestants: Mapping[str, Callable[[], object]], rounds: int, progress: Progress = silent
) -> dict[str, float]:
    """The best time of each contestant over several rounds, in which all take turns; the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    turns = [(number, name) for number in range(rounds + 1) for name in contestants]
    for number, name in progress(turns, "measuring", len(turns)):
        began = time.perf_counter()
        contestants[name]()
        if number:
            times[name].append(time.perf_counter() - began)
    return {name: min(values) for name, values in times.items()}
