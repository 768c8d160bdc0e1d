"""An evaluation as it is known before anything slow is done: what is wrong shows here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from implanting.base import BaseNetwork
from implanting.cli.verbs.evaluate_settings import Evaluate
from implanting.config import TaskConfig
from implanting.console import show_progress
from implanting.datasets import ImageSet, read_dataset
from implanting.errors import ConfigError
from implanting.evaluation import EXTRA_SPLIT, Approach, Comparison, KnownClasses, held_out_images
from implanting.fewshot import Result, Tasks, arrays_of, draw_tasks, evaluate_tasks

Cell = tuple[Tasks, TaskConfig]


@dataclass(frozen=True)
class Prepared:
    """Data that was read, tasks that were drawn, settings that fit both; `run` does the rest."""

    title: str
    novel: ImageSet | None
    """The images of novel classes, where they are tested."""
    image_sets: Sequence[ImageSet]
    """All images that are tested."""
    class_names: tuple[str, ...]
    """The rows and columns of the confusion."""
    task_arrays: dict[str, np.ndarray]
    run: Callable[[], list[Result]]


def prepare(command: Evaluate, base: BaseNetwork) -> Prepared:
    """Read the data, draw the tasks, and check all that can be checked."""
    return {"novel": prepare_novel, "base": prepare_base, "both": prepare_both}[command.classes](command, base)


def prepare_novel(command: Evaluate, base: BaseNetwork) -> Prepared:
    """Prototypes and, where they can be trained, implants on the same tasks."""
    novel = read_split(command, base, command.split)
    cells, approaches = draw_cells(command, novel), approaches_of(command)
    comparison = compare(command, base, novel, approaches)
    comparison.check_cache()
    names = novel.class_names

    def run() -> list[Result]:
        return [
            evaluate_tasks(comparison.method(approach), *cell, len(names), show_progress)
            for approach in approaches
            for cell in cells
            if approach.serves(cell[1].shot)
        ]

    title = f"{novel.name}, {command.way}-way tasks of its {len(names)} classes"
    return Prepared(title, novel, [novel], names, arrays_of(novel, cells), run)


def prepare_base(command: Evaluate, base: BaseNetwork) -> Prepared:
    """The learned class weights on images of base classes that were not trained on; shots make no difference."""
    config = command.task_configs[0]
    known = known_classes(command, base, config)
    names = known.image_set.class_names
    title = f"{len(known.image_set)} images of all {len(names)} base classes, not trained on"
    arrays = base_arrays(base, known)
    return Prepared(title, None, [known.image_set], names, arrays, lambda: [known.alone(config, command.pooling)])


def prepare_both(command: Evaluate, base: BaseNetwork) -> Prepared:
    """Class weights and prototypes side by side, on as many base as novel queries."""
    novel, known = read_split(command, base, command.split), known_classes(command, base, command.task_configs[0])
    cells, comparison = draw_cells(command, novel), compare(command, base, novel, [Approach(command.pooling)])
    base_names = known.image_set.class_names
    names = (*(f"base/{name}" for name in base_names), *(f"novel/{name}" for name in novel.class_names))

    def run() -> list[Result]:
        return [known.beside(comparison, *cell, command.pooling) for cell in cells]

    title = f"all {len(base_names)} base classes and {command.way} of {novel.name} together"
    arrays = arrays_of(novel, cells) | base_arrays(base, known)
    return Prepared(title, novel, [novel, known.image_set], names, arrays, run)


def approaches_of(command: Evaluate) -> list[Approach]:
    """Prototypes of the images, of their views where these are averaged, implants, and implants where they help."""
    approaches = [Approach(replace(command.pooling, support_views=1)), Approach(command.pooling)]
    if command.implants:
        always = replace(command.adapt, implant_decision="always")
        approaches += [Approach(command.pooling, always), Approach(command.pooling, command.adapt)]
    return list(dict.fromkeys(approaches))


def compare(command: Evaluate, base: BaseNetwork, novel: ImageSet, approaches: Sequence[Approach]) -> Comparison:
    """What the approaches read of the novel images."""
    return Comparison(
        base,
        novel,
        approaches,
        seed=command.seed,
        half=command.half,
        cache=command.cache,
        progress=show_progress,
    )


def draw_cells(command: Evaluate, image_set: ImageSet) -> list[Cell]:
    """The tasks of each number of shots."""
    return [(draw_tasks(image_set, config), config) for config in command.task_configs]


def read_split(command: Evaluate, base: BaseNetwork, split: str) -> ImageSet:
    """A split of the data, its images brought to the size that the base was trained for."""
    return read_dataset(
        command.data,
        split,
        splits=command.splits,
        default_splits=base.data.splits,
        split_seed=base.data.split_seed,
        image_size=base.preprocessing.square_size,
        progress=show_progress,
    )


def known_classes(command: Evaluate, base: BaseNetwork, config: TaskConfig) -> KnownClasses:
    """The base classes, on images that were not trained on."""
    if base.description is None:
        raise ConfigError(
            f"--classes {command.classes}: {base.name} comes without its base classes' images and weights"
        )
    images = held_out_images(base.description, partial(read_split, command, base))
    return KnownClasses.drawn(base, images, config, show_progress)


def base_arrays(base: BaseNetwork, known: KnownClasses) -> dict[str, np.ndarray]:
    """The tasks of base classes for other code; images are numbered as in the split that they are from."""
    held_out = base.description.held_out if base.description else ()
    numbers = np.array(held_out) if held_out else np.arange(len(known.image_set))
    return {
        "base_split": np.array("train" if held_out else EXTRA_SPLIT),
        "base_class_names": np.array(known.image_set.class_names),
        "base_classes": known.tasks.classes.numpy(),
        "base_query": numbers[known.tasks.query.numpy()],
    }
