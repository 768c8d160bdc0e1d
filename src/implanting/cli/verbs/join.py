"""`implanting join`: trained base networks side by side as one."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Literal, cast

import tyro

from implanting.base import MEAN_DIRECTION, BaseDescription, BaseNetwork, load_base, save_base
from implanting.cli.parsing import parse
from implanting.config import ThreadsConfig
from implanting.console import print_document, print_table, show_progress
from implanting.datasets import ImageSet, read_dataset, shared_classes
from implanting.errors import ConfigError, DataError
from implanting.networks import Network
from implanting.pretraining import generalised, join
from implanting.runtime import check_destination, set_threads


@dataclass(frozen=True)
class Join:
    """Put base networks side by side: their features are concatenated, and implants read the channels of all of them.

    All must have the same architecture and width, and be trained on the same images, with other seeds, poolings or
    teachers. The first one decides how queries are pooled. The result is a base network like any other. With --gem, one
    network alone can be given too.
    """

    bases: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="BASE...", help_behavior_hint="(required)")
    ]
    """Files of `implanting pretrain`, or names of base networks: two or more, or one with --gem."""
    data: Path
    """The data set they were trained on: its validation classes balance, test and calibrate the joined network,
    and --gem reads its base classes."""
    out: Path
    """The file of the joined network, such as both.safetensors."""
    gem: bool = False
    """Pool by a generalised mean, without most of what all base images have in common; the head of a classifier reads
    it as well. Better for both bundled networks, which were trained with gap; try it on validation classes. It is on if
    a given network has it."""
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
    gem = command.gem or any(base.mean_direction is not None for base in bases)
    base_images = _images(command.data, "train", bases) if gem else None
    alone = len(bases) == 1 and gem
    joined = bases[0] if alone else join(bases, _images(command.data, "val", bases))
    if base_images is not None:
        joined = generalised(joined, base_images)
    description = cast(BaseDescription, joined.description)  # every network that can be joined has one
    further = {} if joined.mean_direction is None else {MEAN_DIRECTION: joined.mean_direction}
    save_base(command.out, cast(Network, joined.network), joined.classifier, description, further, half=command.half)
    if command.json:
        print_document({"file": str(command.out), **description.document()})
        return 0
    rows = [[title, shorten(text, 90)] for title, text in joined.summary().items()]
    rows += [["validation classes", str(result)] for result in description.training.validation]
    print_table(str(command.out), ["", ""], rows)
    return 0


def _images(data: Path, split: Literal["train", "val"], bases: Sequence[BaseNetwork]) -> ImageSet:
    """The base classes or the validation classes, read as the first network's training images were."""
    how = bases[0].data
    images = read_dataset(
        data,
        split,
        splits=how.splits,
        split_seed=how.split_seed,
        image_size=how.image_size,
        progress=show_progress,
    )
    if split == "val" and (shared := shared_classes(bases[0].class_names, images.class_names)):
        raise DataError(
            f"{bases[0].name} was trained on {len(shared)} of the validation classes of {data}, such as "
            f"'{shared[0]}': give the data set that it was trained on"
        )
    return images
