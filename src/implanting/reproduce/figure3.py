"""The paper's Figure 3: where a network trained with pooling and one trained densely see the true class.

Rows as in the paper: base classes that both get right; novel classes that both get right, that only the dense network
does, that only the pooling one does. The paper does not say how its examples were found. Here a rule picks them: the
*margin* of a network is its probability of the true class less its largest other one, and the examples of a row are
those of the largest margin (both right: of the smaller one; one right: the difference), each of another class.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.config import TaskConfig
from implanting.datasets import ImageSet
from implanting.errors import ConfigError
from implanting.fewshot import Tasks, draw_tasks
from implanting.heatmap import similarity_maps
from implanting.reproduce.figure3_candidates import Candidates, Margins, Seen, seen_by
from implanting.runtime import Progress, silent

TASKS = TaskConfig(tasks=20)
"""Tasks whose queries are looked through, unless the caller says otherwise."""

EXAMPLES = 2
"""Of each row, as in the paper."""

Rule = Callable[[Margins, Margins], Margins]
"""Pooling and dense margins -> how good an example is; nan where it is none."""


def both_right(pooling: Margins, dense: Margins) -> Margins:
    """The smaller margin, where both are right."""
    return _where((pooling > 0) & (dense > 0), torch.minimum(pooling, dense))


def dense_better(pooling: Margins, dense: Margins) -> Margins:
    """The difference, where dense is right and pooling wrong."""
    return _where((dense > 0) & (pooling < 0), dense - pooling)


def pooling_better(pooling: Margins, dense: Margins) -> Margins:
    """The difference, where pooling is right and dense wrong."""
    return dense_better(dense, pooling)


def _where(chosen: Bool[Tensor, " candidate"], values: Margins) -> Margins:
    return torch.where(chosen, values, torch.nan)


NOVEL_ROWS: dict[str, Rule] = {
    "novel, both right": both_right,
    "novel, dense better": dense_better,
    "novel, pooling better": pooling_better,
}
BASE_ROWS: dict[str, Rule] = {"base, both right": both_right}


@dataclass(frozen=True)
class Sight:
    """One network's part of an example."""

    map: Float[np.ndarray, "rows columns"]
    """The scores of the true class."""
    probability: float
    """Of the true class."""
    answer: str


@dataclass(frozen=True)
class Example:
    """An image and where each network sees its class."""

    image: np.ndarray
    name: str
    pooling: Sight
    dense: Sight


@dataclass(frozen=True)
class Figure3:
    """The rows of the figure, fewer than two examples where no more are to be found; and how they were picked."""

    rows: dict[str, list[Example]]
    caption: str


def figure3(
    pooling: BaseNetwork,
    dense: BaseNetwork,
    novel: ImageSet,
    base_images: ImageSet | None = None,
    tasks: TaskConfig = TASKS,
    progress: Progress = silent,
) -> Figure3:
    """Pick the examples and compute their maps; without images of base classes their row is left out."""
    _check_networks(pooling, dense, base_images)
    rows: dict[str, list[Example]] = {}
    if base_images is not None:
        rows |= _pick_rows(Candidates.base(base_images), None, (pooling, dense), BASE_ROWS, progress)
    drawn = draw_tasks(novel, tasks)
    rows |= _pick_rows(Candidates.novel(novel, drawn), drawn, (pooling, dense), NOVEL_ROWS, progress)
    return Figure3(rows, describe(novel, base_images, tasks))


def _pick_rows(
    candidates: Candidates,
    tasks: Tasks | None,
    networks: tuple[BaseNetwork, BaseNetwork],
    rules: dict[str, Rule],
    progress: Progress,
) -> dict[str, list[Example]]:
    pooling, dense = (seen_by(base, candidates, tasks, progress) for base in networks)
    margins = pooling.margins(candidates.truth), dense.margins(candidates.truth)
    rows = {}
    for name, rule in rules.items():
        chosen = pick(rule(*margins), candidates.image_set.labels[candidates.images], EXAMPLES)
        rows[name] = [_example(candidates, number, pooling, dense) for number in chosen]
    return rows


def pick(worth: Margins, classes: Int[Tensor, " candidate"], count: int) -> list[int]:
    """The best candidates of different classes; nan is none."""
    best: dict[int, int] = {}
    for number in worth.nan_to_num(-torch.inf).argsort(descending=True, stable=True).tolist():
        if len(best) == count or worth[number].isnan():
            break
        best.setdefault(int(classes[number]), number)
    return list(best.values())


def _example(candidates: Candidates, number: int, pooling: Seen, dense: Seen) -> Example:
    """One candidate with both networks' maps of its true class."""
    truth = int(candidates.truth[number])
    sights = [_sight(one, candidates, number, truth) for one in (pooling, dense)]
    image = candidates.image_set.images[candidates.images[number]].numpy()
    return Example(image, candidates.name(number, truth), *sights)


def _sight(seen: Seen, candidates: Candidates, number: int, truth: int) -> Sight:
    """One network's map of the true class, its probability and the network's answer."""
    phi, vectors = seen.phi[number], seen.vectors[candidates.task[number]]
    size = seen.base.network.map_size(*candidates.image_set.images.shape[1:3])
    maps = similarity_maps(phi, vectors, size)
    given = seen.probabilities[number]
    return Sight(maps[truth].numpy(), float(given[truth]), candidates.name(number, int(given.argmax())))


def describe(novel: ImageSet, base_images: ImageSet | None, tasks: TaskConfig) -> str:
    """The caption: what is shown and how the examples were picked."""
    base = "" if base_images is None else f"; base: {len(base_images)} images of {base_images.name}, by class weights"
    return (
        "Maps: cosine of each location with the true class; red is high; one colour scale for the two maps of an "
        "example. Above each map: the network's answer where it is wrong, and its probability of the true class. "
        "Picked by rule, not by eye: margin = probability of the true class less the largest other one; both right: "
        "the largest smaller margin; one better: it is right, the other wrong, the largest difference of margins; no "
        "class twice in a row. "
        f"Novel: {tasks.tasks * tasks.way * tasks.queries} queries of tasks 0 to {tasks.tasks - 1} (seed {tasks.seed}, "
        f"{tasks.way}-way {tasks.shot}-shot) of {novel.name}, by prototypes{base}."
    )


def _check_networks(pooling: BaseNetwork, dense: BaseNetwork, base_images: ImageSet | None) -> None:
    """One network of each kind, and base images of the classes that both were trained on."""
    kinds = pooling.pooling, dense.pooling
    if kinds[0] not in ("gap", "gmp") or kinds[1] != "dense":
        raise ConfigError(
            f"Figure 3 compares a network trained with gap or gmp and one trained with dense, in this order; "
            f"these were trained with {kinds[0]} and {kinds[1]}: give others"
        )
    if base_images is None:
        return
    for base in (pooling, dense):
        if base.class_names != base_images.class_names:
            raise ConfigError(
                f"the base classes of {base.name} are not those of {base_images.name}: "
                "give the images of its own base classes, or none"
            )
