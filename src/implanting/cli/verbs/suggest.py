"""`implanting suggest`: choose which unlabelled photos to label next."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from implanting.advice import suggest
from implanting.classifier import ImageClassifier
from implanting.cli.parsing import parse
from implanting.config import RunConfig, require
from implanting.console import print_document, print_table, say, show_progress
from implanting.images import find_images
from implanting.runtime import set_threads
from implanting.version import __version__


@dataclass(frozen=True)
class Suggest:
    """Suggest photos to label next: those that the classifier is unsure about and that differ from each other.

    Label them, add them with `implanting fit --from FILE --add-images`, or fit again, and ask for the next ones.
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CLASSIFIER")]
    """A classifier made by `implanting fit`."""
    images: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="IMAGE...", help_behavior_hint="(required)")
    ]
    """Unlabelled image files, folders, patterns, or - for standard input."""
    count: int = 20
    """How many photos to suggest."""
    json: bool = False
    """End with one JSON document on stdout."""
    base: str | None = None
    """The base network of a slim classifier, if it is not found by name."""
    run: RunConfig = field(default_factory=RunConfig)


def main(arguments: Sequence[str]) -> int:
    """Look at all photos, then print those to label."""
    command = parse(Suggest, "suggest", arguments)
    require(command.count >= 1, "count", command.count, "1 or more")
    set_threads(command.run.threads)
    paths = find_images(command.images, skip_bad="-" in command.images)
    began = time.monotonic()
    classifier = ImageClassifier.load(command.file, base=command.base, device=command.run.device)
    suggested, failures = suggest(classifier, paths, command.count, progress=show_progress)
    for failure in failures:
        say(f"left out: {failure.reason}")
    if command.json:
        rows = [
            {"image": str(one.source), "top": [{"class": label, "probability": sure} for label, sure in one.likeliest]}
            for one in suggested
        ]
        facts = {"classifier": str(command.file), "images": len(paths), "seconds": time.monotonic() - began}
        print_document({**facts, "code_version": __version__, "results": rows})
        return 0
    table = [[str(one.source), ", ".join(f"{label} {sure:.2f}" for label, sure in one.likeliest)] for one in suggested]
    caption = f"{len(suggested)} of {len(paths) - len(failures)} photos, {time.monotonic() - began:.1f} s"
    print_table("label these next", ["photo", "most likely"], table, caption)
    return 0
