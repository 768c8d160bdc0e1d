"""`implanting explain`: show where an image resembles a class, as a picture."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Annotated

import tyro

from implanting.classifier import ImageClassifier, from_text
from implanting.cli.parsing import parse
from implanting.config import RunConfig, require
from implanting.console import print_text, say
from implanting.errors import ConfigError, DataError, ImageError
from implanting.heatmap import MapKind, picture_format
from implanting.images import find_images
from implanting.runtime import check_destination, check_outside, is_our_picture, set_threads


@dataclass(frozen=True)
class Explain:
    """Draw a heat map of where an image resembles a class, over the image (see docs/heat-maps.md)."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CLASSIFIER")]
    """A classifier made by `implanting fit`."""
    images: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="IMAGE...", help_behavior_hint="(required)")
    ]
    """The image to explain; or several images, a folder, a pattern, or - for standard input."""
    out: Path
    """Write the picture to this file (.png, .jpg, .pdf, .svg, .webp); for several images, name a folder, outside those
    that are read."""
    label: str | None = None
    """The class to look for; default: the most probable ones."""
    top: int = 1
    """Without --label: how many of the most probable classes to show, side by side."""
    kind: MapKind | None = None
    """evidence: the contribution of each location to the score of the class (default with a head). similarity: the
    cosine of each location with the class. softmax: the probability of the class at each location."""
    finer: int = 1
    """Run the network on the image at this many times its usual size (up to 4096 px), which gives more locations."""
    overwrite: bool = False
    """Let --out replace a picture that was not drawn by this command."""
    base: str | None = None
    """The base network of a slim classifier, if it is not found by name."""
    run: RunConfig = field(default_factory=RunConfig)


def main(arguments: Sequence[str]) -> int:
    """Draw the pictures and print the classes they show."""
    command = parse(Explain, "explain", arguments)
    require(command.top >= 1, "top", command.top, "1 or more")
    require(command.finer >= 1, "finer", command.finer, "1 or more")
    found = [(name, image) for name in command.images for image in find_images([name], skip_bad=name == "-")]
    single = len(found) == 1 and not Path(found[0][0]).is_dir()
    if single:
        picture_format(command.out)
    else:
        check_outside(command.out, command.images, "out")
    places = [(found[0][1], command.out)] if single else _places(found, command.out)
    for image, out in places:
        if single or os.path.lexists(out):
            ending, inputs = out.suffix.lower(), (command.file, image)
            check_destination(out, "out", ending, replaces=is_our_picture, inputs=inputs, overwrite=command.overwrite)
    set_threads(command.run.threads)
    classifier = ImageClassifier.load(command.file, base=command.base, device=command.run.device)
    label = None if command.label is None else from_text(command.label, classifier.classes_)
    drawn = 0
    for image, out in places:
        try:
            explanation = classifier.explain(image, label, top=command.top, kind=command.kind, finer=command.finer)
        except ImageError as error:
            if single:
                raise
            say(f"left out: {error}")
            continue
        if not single:
            out.parent.mkdir(parents=True, exist_ok=True)
        explanation.save(out)
        drawn += 1
        shown = ", ".join(
            f"{name} {100 * probability:.1f} %"
            for name, probability in zip(explanation.classes, explanation.probabilities, strict=True)
        )
        refused = (
            label is None and classifier.unknown is not None and classifier.predict([image])[0] == classifier.unknown
        )
        print_text(f"{out}: {f'{classifier.unknown}; nearest: ' if refused else ''}{shown}")
    if not drawn:
        raise DataError(f"none of the {len(places)} images could be read: see the lines above")
    return 0


def _places(found: Sequence[tuple[str, Path]], folder: Path) -> list[tuple[Path, Path]]:
    """Pair each image with the path of its picture, which follows the image's path within the named folder."""
    if folder.suffix and not folder.is_dir():
        raise ConfigError(f"--out {folder}: there are several images, so name a folder, without an ending")
    places: list[tuple[Path, Path]] = []
    taken: set[Path] = set()
    for name, image in found:
        within = image.relative_to(name) if Path(name).is_dir() else Path(image.name)
        numbered = (f"{within.name}{f' ({number})' * (number > 1)}.png" for number in count(1))
        out = next(place for place in map((folder / within).with_name, numbered) if place not in taken)
        taken.add(out)
        places.append((image, out))
    return places
