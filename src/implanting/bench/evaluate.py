"""Speed of evaluating by prototypes, compared with a loop over tasks on the same cached, normalised features."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from implanting.bench.noise import random_images
from implanting.bench.timing import FACTOR, MATRIX, Work, best_seconds, growth, show_growth
from implanting.config import TaskConfig, ThreadsConfig
from implanting.console import print_table, say, show_progress
from implanting.dense_classification import PrototypeClassifier
from implanting.fewshot import PrototypeMethod, Tasks, draw_tasks, evaluate_tasks, vectors_are_smaller
from implanting.runtime import Progress, silent

IMAGES, CLASSES, DIM = 12_000, 20, 512
CLASSIFY = PrototypeClassifier("gap", "dense", 10.0)


def _random_features(locations: int) -> Float[Tensor, "image location dim"]:
    """Random features: their values make no difference to the speed."""
    return torch.randn(IMAGES, locations, DIM, generator=torch.Generator().manual_seed(0))


@cache
def tasks_of(config: TaskConfig) -> Tasks:
    """Tasks drawn from 20 classes of 600 images."""
    return draw_tasks(random_images(IMAGES, CLASSES), config)


def _one_task_at_a_time(method: PrototypeMethod, tasks: Tasks) -> float:
    """The obvious loop, on features that are already pooled and normalised."""
    supports, queries = method.support_vectors, method.query_directions
    truth = torch.arange(tasks.query.shape[1]).repeat_interleave(tasks.query.shape[2])
    right = 0.0
    with torch.inference_mode():
        for support, query in zip(tasks.support, tasks.query, strict=True):
            vectors = method.classify.tau * F.normalize(supports[support].mean(1), dim=-1)
            scores = queries[query.flatten()] @ vectors.T
            right += float((scores.softmax(-1).mean(1).argmax(-1) == truth).float().mean())
    return right / len(tasks)


def compare(locations: int, tasks: int, loop_tasks: int, rounds: int, progress: Progress = silent) -> dict[str, Any]:
    """Our tasks per second with dense queries, the speed-up, and our shares of the speeds of a copy and of a product.

    The loop takes equally long for each task, so it is timed on some of them.
    """
    config = TaskConfig(way=5, shot=5, queries=30, tasks=tasks)
    drawn = tasks_of(config)
    first_tasks = drawn[:loop_tasks]
    method = PrototypeMethod(_random_features(locations), CLASSIFY)
    block, copied = torch.zeros(64 * 2**20), torch.ones(64 * 2**20)  # filled, so that no page faults are timed
    square = torch.randn(MATRIX, MATRIX)
    contestants: dict[str, Work] = {
        "ours": lambda: evaluate_tasks(method, drawn, config, CLASSES),
        "one task at a time": lambda: _one_task_at_a_time(method, first_tasks),
        "copy": lambda: copied.copy_(block),
        "product": lambda: square @ square,
    }
    seconds = best_seconds(contestants, rounds, progress, f"measuring with {locations} locations")
    ours, loop = seconds["ours"] / len(drawn), seconds["one task at a time"] / len(first_tasks)
    moved, products = _cost_of_a_task(locations, config, method.tasks_at_once)
    return {
        "locations": locations,
        "tasks_per_second": 1 / ours,
        "over_one_task": loop / ours,
        "share_of_bandwidth": moved / ours / (2 * block.nbytes / seconds["copy"]),
        "share_of_peak": products / ours / (2 * MATRIX**3 / seconds["product"]),
    }


def _cost_of_a_task(locations: int, config: TaskConfig, together: int) -> tuple[float, float]:
    """Bytes read and written by gathering, and floating-point operations of the products, per task.

    If class vectors are gathered instead of images, the images are read once for all tasks evaluated together.
    """
    way, queries = config.way, config.way * config.queries
    by_image = vectors_are_smaller(locations, way)
    gathered = queries * (way - 1 if by_image else locations)
    read = IMAGES * locations / together if by_image else 0.0
    supports = way * config.shot
    return 4 * DIM * (2 * gathered + read + supports), 2.0 * DIM * queries * locations * (way - 1)


def _linear_growth(
    locations: Sequence[int], tasks: int, rounds: int, progress: Progress = silent
) -> list[dict[str, Any]]:
    """How cost grows with tasks (on the smallest maps) and with images to pool and normalise (on the largest)."""
    method = PrototypeMethod(_random_features(min(locations)), CLASSIFY)
    phi = _random_features(max(locations))
    drawn = tasks_of(TaskConfig(way=5, shot=5, queries=30, tasks=tasks))

    def evaluate_some(number: int) -> None:
        evaluate_tasks(method, drawn[:number], TaskConfig(way=5, shot=5, queries=30, tasks=number), CLASSES)

    def prepare_some(images: int) -> None:
        some = PrototypeMethod(phi[:images], CLASSIFY)
        _ = some.support_vectors, some.query_directions

    kinds = {"tasks": (max(1, tasks // FACTOR), evaluate_some), "images": (IMAGES // FACTOR, prepare_some)}
    return growth(kinds, rounds, progress)


@dataclass(frozen=True)
class Evaluate:
    """Evaluating 5-way 5-shot tasks of 30 queries per class by prototypes with dense queries, compared with a loop over
    tasks that reads the same cached, normalised features: 4 locations as at 32 px, 25 as at 84 px.
    """

    locations: tuple[int, ...] = (4, 25)
    """Numbers of locations of a feature map."""
    tasks: int = 10_000
    """Number of tasks."""
    loop_tasks: int = 500
    """Number of tasks on which the loop is timed; it takes equally long for each."""
    rounds: int = 2
    """Timed turns of each contestant, after one to warm up."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """One row per number of locations; the growth of cost."""
        shape = (self.tasks, self.loop_tasks, self.rounds)
        rows = []
        for number in self.locations:
            say(f"tasks on feature maps of {number} locations")
            rows.append(compare(number, *shape, show_progress))
        say("growth")
        return rows, {"growth": _linear_growth(self.locations, self.tasks, self.rounds, show_progress)}

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """Print the tables."""
        print_table(
            f"evaluating {self.tasks} 5-way 5-shot tasks, 30 queries per class, {IMAGES} images",
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
            f"best of {self.rounds} interleaved turns, the loop on {min(self.loop_tasks, self.tasks)} tasks; "
            f"{torch.get_num_threads()} threads; bandwidth: bytes gathered (read and written) relative to a copy; "
            f"peak: the products relative to a product of {MATRIX} x {MATRIX} matrices; both in the same run",
        )
        show_growth(once["growth"], self.rounds)
