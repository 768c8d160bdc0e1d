"""The output of `implanting evaluate`: remarks, a table or rows of JSON, and arrays for other code."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from implanting.base import BaseNetwork
from implanting.baselines import METHODS
from implanting.config import InferenceConfig, TaskConfig
from implanting.console import print_table, say
from implanting.datasets import ImageSet, shared_classes
from implanting.evaluation import EXTRA_SPLIT, Approach, Classes, TaskImages
from implanting.fewshot import Result, arrays_of, mean_of
from implanting.runtime import replacing

TOO_FEW_TO_ADAPT = "implants cannot be trained on one support per class; prototypes only (--adapt-views 2 would do it)"
TOO_FEW_TO_DECIDE = "too few supports to hold some out and decide from them"


@dataclass(frozen=True)
class Tested:
    """The base network and the images of a test."""

    base: BaseNetwork
    named: Path
    """The base network, as the user names it."""
    images: TaskImages
    classes: Classes

    def title(self, way: int) -> str:
        """The images and their classes, in words."""
        base_classes = len(self.base.class_names)
        if self.classes == "base":
            return f"{len(self.images.base)} images of all {base_classes} base classes, not trained on"
        novel = self.images.novel
        if self.classes == "both":
            return f"all {base_classes} base classes and {way} of {novel.name} together"
        return f"{novel.name}, {way}-way tasks of its {len(novel.class_names)} classes"

    def class_names(self) -> tuple[str, ...]:
        """The rows and columns of the confusion."""
        if self.classes != "both":
            return self.images.tested(self.classes)[0].class_names
        base, novel = (image_set.class_names for image_set in self.images.tested("both"))
        return (*(f"base/{name}" for name in base), *(f"novel/{name}" for name in novel))

    def image_sets(self) -> list[ImageSet]:
        """All images that are tested, those of novel classes first."""
        return self.images.tested(self.classes)[::-1]

    def described(self) -> list[dict[str, Any]]:
        """Describe for JSON which images were tested, and how they were resized."""
        return [
            {
                "name": image_set.name,
                "images": len(image_set),
                "size": list(image_set.images.shape[1:3]),
                "stored_size": image_set.stored_size,
                "resizing": image_set.resizing,
            }
            for image_set in self.image_sets()
        ]


def say_remarks(tested: Tested, pooling: InferenceConfig) -> None:
    """Warnings about the comparison."""
    base = tested.base
    novel = () if tested.classes == "base" else tested.images.novel.class_names
    if shared := shared_classes(base.class_names, novel):
        say(f"warning: {len(shared)} of these were base classes, such as '{shared[0]}': not a few-shot result")
    if not base.finished:
        say(f"warning: the training of {tested.named} is not finished")
    if base.pooling == "flatten" and (pooling.query_pooling or pooling.support_pooling):
        say("--support-pooling and --query-pooling are not used: the base was trained with flatten, on all locations")
    for image_set in tested.image_sets():
        stored, here = image_set.stored_size, tuple(image_set.images.shape[1:3])
        if stored is not None and stored != here:
            sizes = f"from {_in_pixels(stored)} (its first image) to {_in_pixels(here)}"
            say(f"{image_set.name}: resized {sizes}, the size of the base's images")


def _in_pixels(size: Sequence[int]) -> str:
    return f"{size[1]} x {size[0]} px"


def say_what_is_left_out(approaches: Sequence[Approach], configs: Sequence[TaskConfig]) -> None:
    """Report the shots that are too few for a method."""
    for approach in approaches:
        if few := [str(config.shot) for config in configs if not approach.works_with(config.shot)]:
            reason = TOO_FEW_TO_DECIDE if approach.decides else TOO_FEW_TO_ADAPT
            if approach.method is not None:
                reason = f"{approach.method} needs {METHODS[approach.method].fewest_shots} supports per class"
            say(f"{' and '.join(few)}-shot: {reason}")


def rows_of(tested: Tested, results: Sequence[Result]) -> list[dict[str, Any]]:
    """One row per result, with the paired gain over the first method at the same shot."""
    first = {result.config.shot: result for result in results if result.method == results[0].method}
    rows = []
    for result in results:
        row = result.row() | ({"shot": None} if tested.classes == "base" else {})
        other = first.get(result.config.shot, result)
        if result is not other:
            gain = result.gain_over(other)
            row |= {"gain": gain.mean, "gain_interval": gain.known_interval}
        rows.append(row | {"per_class": per_class(result, tested.class_names())})
    return rows


def per_class(result: Result, class_names: Sequence[str]) -> dict[str, float | None]:
    """Return the accuracy on each class's queries; None for a class that is in no task."""
    accuracies = result.per_class.tolist()
    pairs = zip(class_names, accuracies, strict=True)
    return {name: None if math.isnan(accuracy) else accuracy for name, accuracy in pairs}


def show(tested: Tested, results: Sequence[Result]) -> None:
    """Print one row per method, with its paired gain over the first."""
    methods: dict[str, dict[int, Result]] = {}
    for result in results:
        methods.setdefault(result.method, {})[result.config.shot] = result
    first, *others = methods
    titles = ["gain, paired"] if len(others) == 1 else [f"gain of {name}, paired" for name in others]
    rows = accuracy_rows(methods, {title: (name, first) for title, name in zip(titles, others, strict=True)})
    columns = ["accuracy"] if tested.classes == "base" else [f"{shot}-shot" for shot in _shots_of(methods)]
    config = results[0].config
    title = f"{tested.named.name} on {tested.title(config.way)}"
    print_table(title, ["", *columns], rows, caption(tested.classes, config))


def _shots_of(methods: Mapping[str, Mapping[int, Result]]) -> list[int]:
    """Return all shots with a result of some method, in the order of the command line."""
    fullest = max(methods.values(), key=len)
    return list(dict.fromkeys([*fullest, *(shot for results in methods.values() for shot in results)]))


def accuracy_rows(methods: Mapping[str, Mapping[int, Result]], gains: Mapping[str, tuple[str, str]]) -> list[list[str]]:
    """Make one row per method with its accuracy at each shot, then paired gains where both methods have a result."""
    shots = _shots_of(methods)

    def row(title: str, texts: Mapping[int, str]) -> list[str]:
        return [title, *(texts.get(shot, "") for shot in shots)]

    rows = [row(name, {shot: str(one.estimate) for shot, one in results.items()}) for name, results in methods.items()]
    for title, (better, worse) in gains.items():
        both = {shot: one for shot, one in methods[better].items() if shot in methods[worse]}
        paired = {shot: one.gain_over(methods[worse][shot]) for shot, one in both.items()}
        rows.append(row(title, {shot: gain.signed() for shot, gain in paired.items()}))
    return rows


def caption(classes: Classes, config: TaskConfig) -> str:
    """The explanation below the table."""
    brackets = "query pooling; no supports" if classes == "base" else "support/query pooling"
    return f"accuracy in %, {mean_of(config.tasks)}, {config.queries} queries per class; in brackets, {brackets}"


def task_arrays(tested: Tested, configs: Sequence[TaskConfig]) -> dict[str, np.ndarray]:
    """Return the tasks as arrays for other code."""
    images = tested.images
    arrays: dict[str, np.ndarray] = {}
    if tested.classes != "base":
        arrays |= arrays_of(images.novel, [(images.novel_tasks(config), config) for config in configs])
    if tested.classes != "novel":
        arrays |= _base_task_arrays(tested, configs[0])
    return arrays


def _base_task_arrays(tested: Tested, config: TaskConfig) -> dict[str, np.ndarray]:
    """Return the tasks of base classes; images are numbered as in their split."""
    image_set, tasks = tested.images.base, tested.images.base_tasks(config)
    held_out = tested.base.description.held_out if tested.base.description else ()
    numbers = np.array(held_out) if held_out else np.arange(len(image_set))
    return {
        "base_split": np.array("train" if held_out else EXTRA_SPLIT),
        "base_class_names": np.array(image_set.class_names),
        "base_classes": tasks.classes.numpy(),
        "base_query": numbers[tasks.query.numpy()],
    }


def result_arrays(tested: Tested, results: Sequence[Result]) -> dict[str, np.ndarray]:
    """Return the results as arrays for other code, in the order of the JSON rows."""
    return {
        "method": np.array([result.method for result in results]),
        "shot": np.array([result.config.shot for result in results]),
        "per_task": np.stack([result.per_task for result in results]),
        "confusion": np.stack([result.confusion for result in results]),
        "class_names": np.array(tested.class_names()),
    }


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as a compressed .npz file that needs no pickle."""
    with replacing(path) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
