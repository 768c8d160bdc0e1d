"""Few-shot tasks as index tensors, drawn once and shared by all methods under comparison.

Task i depends only on (seed, i), not on the number of tasks or processes or on library versions: its random numbers are
hashes of (seed, task, class, image), so any slice of the tasks can be drawn independently.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, UInt64
from torch import Tensor

from implanting.config import TaskConfig
from implanting.datasets import ImageSet
from implanting.errors import DataError
from implanting.runtime import check_memory

CHUNK = 500
"""Tasks drawn at a time, to bound the memory of the random keys."""


@dataclass(frozen=True)
class Tasks:
    """Indices into an image set, and the classes they come from."""

    images: str
    """The fingerprint of the image set."""
    numbers: Int[Tensor, " task"]
    """The indices of these tasks among the tasks of the seed."""
    classes: Int[Tensor, "task way"]
    support: Int[Tensor, "task way shot"]
    query: Int[Tensor, "task way query"]

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def size(self) -> int:
        """Number of images per task, supports and queries."""
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
    """Draw tasks 0, 1, ... of a seed: `way` classes each, then disjoint supports and queries of each class."""
    _check_enough(image_set, config)
    classes, images = _draw_images(image_set, config, config.shot + config.queries)
    return tasks_of(image_set, classes, images[..., : config.shot], images[..., config.shot :])


def draw_queries(image_set: ImageSet, config: TaskConfig) -> Tasks:
    """Draw tasks of classes that need no supports: the queries of the 1-shot tasks of the same seed.

    The image that would be a class's support is therefore not used, unless the class has no other image to spare.
    """
    _check_queries(image_set, config)
    classes, images = _draw_images(image_set, config, 1 + config.queries)
    all_needed = torch.bincount(image_set.labels)[classes] == config.queries
    last = torch.where(all_needed, images[..., 0], images[..., -1])
    query = torch.cat([images[..., 1:-1], last[..., None]], dim=-1)
    return tasks_of(image_set, classes, query[..., :0], query)


def tasks_of(image_set: ImageSet, classes: Tensor, support: Tensor, query: Tensor) -> Tasks:
    """Bundle the first tasks of a seed."""
    return Tasks(image_set.fingerprint, torch.arange(len(classes)), classes, support, query)


def _draw_images(
    image_set: ImageSet, config: TaskConfig, images: int
) -> tuple[Int[Tensor, "task way"], Int[Tensor, "task way {images}"]]:
    """Draw the classes of each task and `images` images per class; if a class is one short, the last is padding."""
    needed = 2 * 8 * config.tasks * config.way * (1 + images)  # the chunks and their concatenation
    check_memory(needed, f"drawing {config.tasks} tasks of {config.way * images} images", "lower `tasks` or `queries`")
    indices_by_class = image_set.indices_by_class()
    sizes = np.array([len(indices) for indices in indices_by_class])
    table = np.zeros((len(sizes), max(sizes.max(), images)), dtype=np.int64)
    for row, indices in zip(table, indices_by_class, strict=True):
        row[: len(indices)] = indices.numpy()
    starts = range(0, config.tasks, CHUNK)
    numbers = [np.arange(start, min(start + CHUNK, config.tasks), dtype=np.uint64) for start in starts]
    drawn = [_draw_chunk(table, sizes, chunk, config.way, images, config.seed) for chunk in numbers]
    classes, chosen = (torch.from_numpy(np.concatenate(parts)) for parts in zip(*drawn, strict=True))
    return classes, chosen


def _draw_chunk(
    table: Int[np.ndarray, "class image"],
    sizes: Int[np.ndarray, " class"],
    task: UInt64[np.ndarray, " task"],
    way: int,
    images: int,
    seed: int,
) -> tuple[Int[np.ndarray, "task way"], Int[np.ndarray, "task way images"]]:
    """Choose the classes and images with the smallest hashes in each task."""
    task_key = mix(mix(np.uint64(seed) + np.zeros_like(task)) ^ task)
    class_key = mix(task_key[:, None] ^ np.arange(1, len(table) + 1, dtype=np.uint64))
    classes = class_key.argsort(axis=1, kind="stable")[:, :way]
    image_key = mix(np.take_along_axis(class_key, classes, 1)[..., None] ^ np.arange(table.shape[1], dtype=np.uint64))
    image_key[np.arange(table.shape[1]) >= sizes[classes][..., None]] = np.iinfo(np.uint64).max
    chosen = image_key.argsort(axis=2, kind="stable")[..., :images]
    return classes, table[classes[..., None], chosen]


def _check_enough(image_set: ImageSet, config: TaskConfig) -> None:
    """Check that every class has enough images for any task."""
    shot, queries = config.shot, config.queries
    _check_way(image_set, config.way)
    for name, found in counts(image_set):
        if (missing := shot + queries - found) > 0:
            raise DataError(
                f"class '{name}' has {found} images; {shot}-shot with {queries} queries needs {shot + queries}: "
                f"lower `shot` or `queries`, or add {missing}"
            )


def _check_queries(image_set: ImageSet, config: TaskConfig) -> None:
    """Check the same for base classes, which need no supports."""
    _check_way(image_set, config.way)
    for name, found in counts(image_set):
        if found < config.queries:
            raise DataError(
                f"base class '{name}' has {found} images that were not trained on; {config.queries} queries need "
                f"{config.queries}: lower `queries`, or train the base with `hold_out` {config.queries}"
            )


def _check_way(image_set: ImageSet, way: int) -> None:
    if way > (found := len(image_set.class_names)):
        raise DataError(f"{way}-way tasks need {way} classes; found {found}: lower `way` or add classes")


def counts(image_set: ImageSet) -> list[tuple[str, int]]:
    """Return the name and the number of images of each class."""
    found = torch.bincount(image_set.labels, minlength=len(image_set.class_names)).tolist()
    return list(zip(image_set.class_names, found, strict=True))


def arrays_of(image_set: ImageSet, cells: Sequence[tuple[Tasks, TaskConfig]]) -> dict[str, np.ndarray]:
    """Return tasks as arrays for other code: `support_5`, `query_5`, `classes_5` and so on, and the class names."""
    arrays: dict[str, np.ndarray] = {"class_names": np.array(image_set.class_names), "labels": image_set.labels.numpy()}
    for tasks, config in cells:
        for name in ("support", "query", "classes"):
            arrays[f"{name}_{config.shot}"] = getattr(tasks, name).numpy()
    return arrays
