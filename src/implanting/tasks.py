"""Few-shot tasks as index tensors, drawn once and shared by all the methods that are compared.

Task i depends on (seed, i) only, whatever the number of tasks, processes or the version of a library: its random
numbers are hashes of (seed, task, class, image), so any slice of the tasks can be drawn by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int, UInt64
from torch import Tensor

from implanting.config import TaskConfig
from implanting.datasets import ImageSet
from implanting.errors import ConfigError, DataError

CHUNK = 500
"""Tasks drawn at once; bounds the memory of the random keys."""


@dataclass(frozen=True)
class Tasks:
    """Indices into an image set, and the classes they come from."""

    images: str
    """The fingerprint of the image set."""
    numbers: Int[Tensor, " task"]
    """Which of the seed's tasks these are."""
    classes: Int[Tensor, "task way"]
    support: Int[Tensor, "task way shot"]
    query: Int[Tensor, "task way query"]

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def size(self) -> int:
        """Images of one task, supports and queries."""
        return self.support.shape[1:].numel() + self.query.shape[1:].numel()

    def __getitem__(self, tasks: slice) -> "Tasks":
        return Tasks(self.images, self.numbers[tasks], self.classes[tasks], self.support[tasks], self.query[tasks])


def mix(state: UInt64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014): a hash of 64 bits into 64 bits."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def draw_tasks(image_set: ImageSet, config: TaskConfig) -> Tasks:
    """Tasks 0, 1, ... of a seed: `way` classes each, then disjoint supports and queries of each class."""
    indices_by_class = image_set.indices_by_class()
    check_enough(indices_by_class, image_set.class_names, config)
    sizes = np.array([len(indices) for indices in indices_by_class])
    table = np.zeros((len(sizes), sizes.max()), dtype=np.int64)
    for row, indices in zip(table, indices_by_class, strict=True):
        row[: len(indices)] = indices.numpy()
    starts = range(0, config.tasks, CHUNK)
    numbers = [np.arange(start, min(start + CHUNK, config.tasks), dtype=np.uint64) for start in starts]
    drawn = [
        draw_chunk(table, sizes, chunk, config.way, config.shot + config.queries, config.seed) for chunk in numbers
    ]
    classes, images = (torch.from_numpy(np.concatenate(parts)) for parts in zip(*drawn, strict=True))
    return Tasks(
        image_set.fingerprint,
        torch.arange(config.tasks),
        classes,
        images[..., : config.shot],
        images[..., config.shot :],
    )


def draw_chunk(
    table: Int[np.ndarray, "class image"],
    sizes: Int[np.ndarray, " class"],
    task: UInt64[np.ndarray, " task"],
    way: int,
    images: int,
    seed: int,
) -> tuple[Int[np.ndarray, "task way"], Int[np.ndarray, "task way images"]]:
    """The classes and images with the smallest hashes, task by task."""
    task_key = mix(mix(np.uint64(seed) + np.zeros_like(task)) ^ task)
    class_key = mix(task_key[:, None] ^ np.arange(1, len(table) + 1, dtype=np.uint64))
    classes = class_key.argsort(axis=1, kind="stable")[:, :way]
    image_key = mix(np.take_along_axis(class_key, classes, 1)[..., None] ^ np.arange(table.shape[1], dtype=np.uint64))
    image_key[np.arange(table.shape[1]) >= sizes[classes][..., None]] = np.iinfo(np.uint64).max
    chosen = image_key.argsort(axis=2, kind="stable")[..., :images]
    return classes, table[classes[..., None], chosen]


def check_enough(indices_by_class: list[Tensor], class_names: tuple[str, ...], config: TaskConfig) -> None:
    """Every class must be able to serve in every task."""
    way, shot, queries = config.way, config.shot, config.queries
    if way > len(indices_by_class):
        raise DataError(
            f"{way}-way tasks need {way} classes; found {len(indices_by_class)}: lower --way or add classes"
        )
    for name, indices in zip(class_names, indices_by_class, strict=True):
        if (missing := shot + queries - len(indices)) > 0:
            raise DataError(
                f"class '{name}' has {len(indices)} images; {shot}-shot with {queries} queries needs {shot + queries}: "
                f"lower --shot or --queries, or add {missing}"
            )


def save_tasks(path: Path, image_set: ImageSet, cells: Sequence[tuple[Tasks, TaskConfig]]) -> None:
    """Write tasks for other code: arrays `support_5`, `query_5`, `classes_5` for 5 shots and so on, and the classes."""
    arrays: dict[str, np.ndarray] = {"class_names": np.array(image_set.class_names), "labels": image_set.labels.numpy()}
    for tasks, config in cells:
        for name in ("support", "query", "classes"):
            arrays[f"{name}_{config.shot}"] = getattr(tasks, name).numpy()
    try:
        with path.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise ConfigError(f"--save-tasks {path} cannot be written ({error.strerror}): choose another place") from error
