"""`implanting bench evaluate`: how fast tasks are evaluated by prototypes."""

from dataclasses import dataclass, field
from typing import Any

import torch

from implanting.bench import evaluate
from implanting.bench.timing import MATRIX
from implanting.commands.bench_growth import show_growth
from implanting.config import ThreadsConfig
from implanting.console import print_table, say, show_progress


@dataclass(frozen=True)
class Evaluate:
    """Evaluating 5-way 5-shot tasks of 30 queries a class by prototypes with dense queries, against a loop over tasks
    that reads the same cached, normalised features: 4 locations as at 32 px, 25 as at 84 px.
    """

    locations: tuple[int, ...] = (4, 25)
    """Locations of a feature map."""
    tasks: int = 10_000
    """Number of tasks."""
    loop_tasks: int = 500
    """Tasks on which the loop is timed; it takes as long for each."""
    rounds: int = 2
    """Turns of each contestant, after one to warm up."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """A row for each number of locations; growth."""
        shape = (self.tasks, self.loop_tasks, self.rounds)
        rows = []
        for number in self.locations:
            say(f"tasks on feature maps of {number} locations")
            rows.append(evaluate.compare(number, *shape, show_progress))
        say("growth")
        return rows, {"growth": evaluate.linear_growth(self.locations, self.tasks, self.rounds, show_progress)}

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """The tables."""
        print_table(
            f"evaluating {self.tasks} 5-way 5-shot tasks, 30 queries a class, {evaluate.IMAGES} images",
            ["locations", "tasks/s", "over one task at a time", "share of memory bandwidth", "of matrix peak"],
            [
                [
                    str(row["locations"]),
                    f"{row['tasks_per_second']:.0f}",
                    f"{row['over_one_task']:.2f}",
                    f"{100 * row['share_of_bandwidth']:.0f} %",
                    f"{100 * row['share_of_peak']:.0f} %",
                ]
                for row in rows
            ],
            f"best of {self.rounds} turns, taken in turn, the loop on {min(self.loop_tasks, self.tasks)} tasks; "
            f"{torch.get_num_threads()} threads; bandwidth: bytes gathered (read and written) against a plain copy; "
            f"peak: the products against a product of {MATRIX} x {MATRIX} matrices; both in the same run",
        )
        show_growth(once["growth"], self.rounds)
