"""`implanting join`: trained base networks side by side as one."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Annotated, cast

import tyro

from implanting.base import BaseDescription, BaseNetwork, load_base, save_base
from implanting.cli.parsing import parse
from implanting.config import ThreadsConfig
from implanting.console import print_document, print_table, show_progress
from implanting.datasets import ImageSet, read_dataset, shared_classes
from implanting.errors import ConfigError, DataError
from implanting.networks import Network
from implanting.pretraining import join
from implanting.runtime import check_destination, set_threads


@dataclass(frozen=True)
class Join:
    """Put base networks side by side: their features are concatenated, and implants read the channels of all of them.

    All must have the same architecture and width, and be trained on the same images, with other seeds, poolings or
    teachers. The first one decides how queries are pooled. The result is a base network like any other.
    """

    bases: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="BASE...", help_behavior_hint="(required)")
    ]
    """Two or more files of `implanting pretrain`, or names of base networks."""
    data: Path
    """The data set they were trained on: its validation classes balance, test and calibrate the joined network."""
    out: Path
    """The file of the joined network, such as both.safetensors."""
    half: bool = False
    """Store the weights in half precision, in a file of half the size."""
    overwrite: bool = False
    """Replace an existing file at --out."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)


def main(arguments: Sequence[str]) -> int:
    """Load, join, test, save, and report."""
    command = parse(Join, "join", arguments)
    inputs = tuple(path for path in map(Path, command.bases) if path.exists())
    check_destination(command.out, inputs=inputs, overwrite=command.overwrite)
    if os.path.lexists(command.out) and not command.overwrite:
        raise ConfigError(f"`out` {command.out} exists already: choose another, or replace it with `overwrite`")
    set_threads(command.run.threads)
    bases = [load_base(base) for base in command.bases]
    joined = join(bases, _validation(command.data, bases))
    description = cast(BaseDescription, joined.description)  # every network that can be joined has one
    save_base(command.out, cast(Network, joined.network), joined.classifier, description, half=command.half)
    if command.json:
        print_document({"file": str(command.out), **description.document()})
        return 0
    rows = [[title, shorten(text, 90)] for title, text in joined.summary().items()]
    rows += [["validation classes", str(result)] for result in description.training.validation]
    print_table(str(command.out), ["", ""], rows)
    return 0


def _validation(data: Path, bases: Sequence[BaseNetwork]) -> ImageSet:
    """The validation classes, read as the first network's training images were."""
    how = bases[0].data
    validation = read_dataset(
        data,
        "val",
        splits=how.splits,
        split_seed=how.split_seed,
        image_size=how.image_size,
        progress=show_progress,
    )
    if shared := shared_classes(bases[0].class_names, validation.class_names):
        raise DataError(
            f"{bases[0].name} was trained on {len(shared)} of the validation classes of {data}, such as "
            f"'{shared[0]}': give the data set that it was trained on"
        )
    return validation
