"""`implanting explain`: where an image looks like a class, as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from implanting.classifier import ImageClassifier, from_text
from implanting.cli.parsing import parse
from implanting.config import RunConfig, require
from implanting.console import print_text
from implanting.heatmap import MapKind, picture_format
from implanting.runtime import set_threads


@dataclass(frozen=True)
class Explain:
    """A heat map of where an image looks like a class, laid over the image (docs/heat-maps.md tells how to read it)."""

    file: Annotated[Path, tyro.conf.Positional]
    """A classifier made by `implanting fit`."""
    image: Annotated[Path, tyro.conf.Positional]
    """The image to explain."""
    out: Path
    """Where the picture is written (.png, .jpg, .pdf, .svg, .webp)."""
    label: str | None = None
    """The class to look for; default: the most probable ones."""
    top: int = 1
    """How many of the most probable classes to show, side by side."""
    kind: MapKind | None = None
    """evidence: what each location adds to the score of the class (default where a head answers). similarity: the
    cosine of each location with the class. softmax: its probability among the classes."""
    finer: int = 1
    """Run the network at so many times its size: more locations, on an image larger than it was trained for."""
    base: str | None = None
    """The base network of a slim classifier, where it is not found by name."""
    run: RunConfig = field(default_factory=RunConfig)


def main(arguments: Sequence[str]) -> int:
    """Draw the picture and say what it shows."""
    command = parse(Explain, "explain", arguments)
    require(command.top >= 1, "top", command.top, "1 or more")
    require(command.finer >= 1, "finer", command.finer, "1 or more")
    picture_format(command.out)
    set_threads(command.run.threads)
    classifier = ImageClassifier.load(command.file, base=command.base, device=command.run.device)
    label = None if command.label is None else from_text(command.label, classifier.classes_)
    explanation = classifier.explain(command.image, label, top=command.top, kind=command.kind, finer=command.finer)
    explanation.save(command.out)
    shown = ", ".join(
        f"{name} {100 * probability:.1f} %"
        for name, probability in zip(explanation.classes, explanation.probabilities, strict=True)
    )
    print_text(f"{command.out}: {shown}")
    return 0
