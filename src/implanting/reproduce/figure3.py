"""The paper's Figure 3: where a network trained with pooling and one trained densely see the true class.

The rows are those of the paper: images of base classes that both networks get right; images of novel classes that both
get right, that only the dense network gets right, and that only the pooling network gets right. The paper does not say
how its examples were found. Here a rule picks them. The *margin* of a network is its probability of the true class
minus its largest other probability. If both are right, the examples are those whose smaller margin is largest; if one
is right, those with the largest difference of margins. Each example of a row is from another class.
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
"""The default tasks, whose queries are the candidates."""

EXAMPLES = 2
"""Number of examples per row, as in the paper."""

Rule = Callable[[Margins, Margins], Margins]
"""A function of the pooling and the dense margins: how good an example is, nan if it does not qualify."""


def both_right(pooling: Margins, dense: Margins) -> Margins:
    """The smaller margin if both networks are right."""
    return _where((pooling > 0) & (dense > 0), torch.minimum(pooling, dense))


def dense_better(pooling: Margins, dense: Margins) -> Margins:
    """The difference of margins if dense is right and pooling wrong."""
    return _where((dense > 0) & (pooling < 0), dense - pooling)


def pooling_better(pooling: Margins, dense: Margins) -> Margins:
    """The difference of margins if pooling is right and dense wrong."""
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
    """An example as one network sees it."""

    map: Float[np.ndarray, "rows columns"]
    """The scores of the true class."""
    probability: float
    """The probability of the true class."""
    answer: str


@dataclass(frozen=True)
class Example:
    """An image, and where each network sees its true class."""

    image: np.ndarray
    name: str
    pooling: Sight
    dense: Sight


@dataclass(frozen=True)
class Figure3:
    """The rows of the figure, with fewer than two examples if no more qualify, and a caption that gives the rule."""

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
    """Pick the examples and compute their maps; without images of base classes, the row of base classes is left out."""
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
    """The best candidates, each of another class; nan does not qualify."""
    best: dict[int, int] = {}
    for number in worth.nan_to_num(-torch.inf).argsort(descending=True, stable=True).tolist():
        if len(best) == count or worth[number].isnan():
            break
        best.setdefault(int(classes[number]), number)
    return list(best.values())


def _example(candidates: Candidates, number: int, pooling: Seen, dense: Seen) -> Example:
    truth = int(candidates.truth[number])
    sights = [_sight(one, candidates, number, truth) for one in (pooling, dense)]
    image = candidates.image_set.images[candidates.images[number]].numpy()
    return Example(image, candidates.name(number, truth), *sights)


def _sight(seen: Seen, candidates: Candidates, number: int, truth: int) -> Sight:
    phi, vectors = seen.phi[number], seen.vectors[candidates.task[number]]
    size = seen.base.network.map_size(*candidates.image_set.images.shape[1:3])
    maps = similarity_maps(phi, vectors, size)
    probabilities = seen.probabilities[number]
    answer = candidates.name(number, int(probabilities.argmax()))
    return Sight(maps[truth].numpy(), float(probabilities[truth]), answer)


def describe(novel: ImageSet, base_images: ImageSet | None, tasks: TaskConfig) -> str:
    """The caption, which says what is shown and how the examples were picked."""
    base = "" if base_images is None else f"; base: {len(base_images)} images of {base_images.name}, by class weights"
    return (
        "Maps: cosine of each location with the true class; red is high; the two maps of an example share one colour "
        "scale. Above each map: the network's answer if it is wrong, and its probability of the true class. "
        "Examples are picked by a rule, not by eye: the margin is the probability of the true class minus the largest "
        "other one; both right: the largest smaller margin; one better: it is right and the other wrong, with the "
        "largest difference of margins; no class occurs twice in a row of the figure. "
        f"Novel: {tasks.tasks * tasks.way * tasks.queries} queries of tasks 0 to {tasks.tasks - 1} (seed {tasks.seed}, "
        f"{tasks.way}-way {tasks.shot}-shot) of {novel.name}, by prototypes{base}."
    )


def _check_networks(pooling: BaseNetwork, dense: BaseNetwork, base_images: ImageSet | None) -> None:
    """Refuse two networks of the same kind, and base images of other classes than those they were trained on."""
    kinds = pooling.pooling, dense.pooling
    if kinds[0] not in ("gap", "gmp") or kinds[1] != "dense":
        raise ConfigError(
            f"Figure 3 compares a network trained with gap or gmp and one trained with dense, in this order; "
            f"these were trained with {kinds[0]} and {kinds[1]}: choose others"
        )
    if base_images is None:
        return
    for base in (pooling, dense):
        if base.class_names != base_images.class_names:
            raise ConfigError(
                f"the base classes of {base.name} are not those of {base_images.name}: "
                "give the images of its own base classes, or none"
            )
