"""Speed of evaluating by prototypes, against a loop over tasks that reads the same cached, normalised features."""

from typing import Any

import torch
import torch.nn.functional as F

from implanting.bench.timing import best_seconds
from implanting.config import TaskConfig
from implanting.datasets import ImageSet
from implanting.evaluation import evaluate_tasks
from implanting.inference import PrototypeClassifier
from implanting.methods import PrototypeMethod
from implanting.progress import Progress, silent
from implanting.tasks import Tasks, draw_tasks

IMAGES, CLASSES, DIM = 12_000, 20, 512


def one_task_at_a_time(method: PrototypeMethod, tasks: Tasks) -> float:
    """The loop anybody would write, on features that are pooled and normalised already."""
    supports, queries = method.support_vectors, method.query_directions
    truth = torch.arange(tasks.query.shape[1]).repeat_interleave(tasks.query.shape[2])
    right = 0.0
    with torch.inference_mode():
        for support, query in zip(tasks.support, tasks.query, strict=True):
            vectors = F.normalize(supports[support].mean(1), dim=-1)
            scores = method.classify.tau * queries[query.flatten()] @ vectors.T
            right += float((scores.softmax(-1).mean(1).argmax(-1) == truth).float().mean())
    return right / len(tasks)


def compare(locations: int, tasks: int, rounds: int, progress: Progress = silent) -> dict[str, Any]:
    """Tasks a second of both, dense queries, and our share of the speed at which memory is copied."""
    generator = torch.Generator().manual_seed(0)
    phi = torch.randn(IMAGES, locations, DIM, generator=generator)
    names = tuple(str(number) for number in range(CLASSES))
    labels = torch.arange(IMAGES) % CLASSES
    image_set = ImageSet(torch.zeros(IMAGES, 1, 1, 3, dtype=torch.uint8), labels, names, "noise", "as stored")
    config = TaskConfig(way=5, shot=5, queries=30, tasks=tasks)
    drawn = draw_tasks(image_set, config)
    method = PrototypeMethod(phi, PrototypeClassifier("gap", "dense", 10.0))
    block = torch.zeros(64 * 2**20)
    contestants = {
        "ours": lambda: evaluate_tasks(method, drawn, config, CLASSES),
        "one task at a time": lambda: one_task_at_a_time(method, drawn),
        "copy": block.clone,
    }
    seconds = best_seconds(contestants, rounds, progress)
    bandwidth = 2 * block.nbytes / seconds["copy"]
    gathered = 2 * 4 * (drawn.query.numel() * locations + drawn.support.numel()) * DIM
    return {
        "locations": locations,
        "tasks_per_second": tasks / seconds["ours"],
        "over_one_task": seconds["one task at a time"] / seconds["ours"],
        "share_of_bandwidth": gathered / seconds["ours"] / bandwidth,
    }
