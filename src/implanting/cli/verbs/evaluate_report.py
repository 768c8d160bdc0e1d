"""What `implanting evaluate` tells: remarks, a table or rows of JSON, and arrays for other code."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from implanting.base import BaseNetwork
from implanting.cli.verbs.evaluate_prepare import Prepared, approaches_of
from implanting.cli.verbs.evaluate_settings import Evaluate
from implanting.console import print_table, say
from implanting.datasets import ImageSet, shared_classes
from implanting.errors import ConfigError
from implanting.fewshot import Result, mean_of

TOO_FEW_TO_ADAPT = "implants cannot be trained on one support a class; prototypes only (--adapt-views 2 would do it)"
TOO_FEW_TO_DECIDE = "too few supports to hold some out and decide from them"


def remark(command: Evaluate, base: BaseNetwork, prepared: Prepared) -> None:
    """What makes the figures worth less than they seem, or is not as one might think."""
    novel = prepared.novel.class_names if prepared.novel else ()
    if shared := shared_classes(base.class_names, novel):
        say(f"warning: {len(shared)} of these were base classes, such as '{shared[0]}': not a few-shot result")
    if not base.finished:
        say(f"warning: the training of {command.base} is not finished")
    pooling = command.pooling
    if base.pooling == "flatten" and (pooling.query_pooling is not None or pooling.support_pooling != "gap"):
        say("--support-pooling and --query-pooling are not used: the base was trained with flatten, on all locations")
    for image_set in prepared.image_sets:
        if was_resized(image_set):
            stored, here = (in_pixels(size) for size in (image_set.stored_size, image_set.images.shape[1:3]))
            say(f"{image_set.name}: resized from {stored} (its first image) to {here}, the size of the base's images")


def was_resized(image_set: ImageSet) -> bool:
    """Whether the images are not as stored."""
    return image_set.stored_size is not None and image_set.stored_size != tuple(image_set.images.shape[1:3])


def in_pixels(size: Sequence[int] | None) -> str:
    """Height and width as people write them."""
    return "unknown" if size is None else f"{size[1]} x {size[0]} px"


def say_what_is_left_out(command: Evaluate) -> None:
    """Which shots are too few for a decision about implants, or for implants."""
    for approach in approaches_of(command):
        shots = [config.shot for config in command.task_configs]
        if few := [str(shot) for shot in shots if not approach.serves(shot)]:
            say(f"{' and '.join(few)}-shot: {TOO_FEW_TO_DECIDE if approach.decides else TOO_FEW_TO_ADAPT}")


def images_told(prepared: Prepared) -> list[dict[str, Any]]:
    """For JSON: which images were tested, and how they were brought to their size."""
    return [
        {
            "name": image_set.name,
            "images": len(image_set),
            "size": list(image_set.images.shape[1:3]),
            "stored_size": image_set.stored_size,
            "resizing": image_set.resizing,
        }
        for image_set in prepared.image_sets
    ]


def rows_of(command: Evaluate, results: Sequence[Result], class_names: Sequence[str]) -> list[dict[str, Any]]:
    """A row a result; all but the first of so many shots carry their paired gain over it on the same tasks."""
    first = {result.config.shot: result for result in reversed(results)}
    rows = []
    for result in results:
        row = result.row() | ({"shot": None} if command.classes == "base" else {})
        if result is not first[result.config.shot]:
            gain = result.gain_over(first[result.config.shot])
            row |= {"gain": gain.mean, "gain_interval": gain.known_interval}
        rows.append(row | {"per_class": per_class(result, class_names)})
    return rows


def per_class(result: Result, class_names: Sequence[str]) -> dict[str, float | None]:
    """The accuracy of each class's queries; None for a class that no task had."""
    accuracies = result.per_class.tolist()
    pairs = zip(class_names, accuracies, strict=True)
    return {name: None if math.isnan(accuracy) else accuracy for name, accuracy in pairs}


def show(command: Evaluate, title: str, results: Sequence[Result]) -> None:
    """A row a method, and the paired gain over the first."""
    cells = {(result.method, result.config.shot): result for result in results}
    methods = list(dict.fromkeys(result.method for result in results))
    shots = list(dict.fromkeys(result.config.shot for result in results))

    def row(title: str, texts: Mapping[int, str]) -> list[str]:
        return [title, *(texts.get(shot, "") for shot in shots)]

    rows = [
        row(name, {shot: str(result.estimate) for (method, shot), result in cells.items() if method == name})
        for name in methods
    ]
    for name in methods[1:]:
        served = [shot for method, shot in cells if method == name]
        gains = {shot: cells[name, shot].gain_over(cells[methods[0], shot]).signed() for shot in served}
        rows.append(row("gain, paired" if len(methods) == 2 else f"gain of {name}, paired", gains))
    columns = ["accuracy"] if command.classes == "base" else [f"{shot}-shot" for shot in shots]
    print_table(f"{command.base.name} on {title}", ["", *columns], rows, caption(command))


def caption(command: Evaluate) -> str:
    """What the figures are."""
    brackets = "query pooling; no supports" if command.classes == "base" else "support/query pooling"
    return f"accuracy in %, {mean_of(command.tasks)}, {command.queries} queries a class; in brackets, {brackets}"


def result_arrays(results: Sequence[Result], class_names: Sequence[str]) -> dict[str, np.ndarray]:
    """The results for other code, in the order of the rows of JSON."""
    return {
        "method": np.array([result.method for result in results]),
        "shot": np.array([result.config.shot for result in results]),
        "per_task": np.stack([result.per_task for result in results]),
        "confusion": np.stack([result.confusion for result in results]),
        "class_names": np.array(class_names),
    }


def write_arrays(path: Path, flag: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Arrays as a compressed .npz file that needs no pickle."""
    try:
        with path.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise ConfigError(f"{flag} {path} cannot be written ({error.strerror}): choose another place") from error
