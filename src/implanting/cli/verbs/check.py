"""`implanting check`: find problems among the examples of a classifier or of a folder."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from implanting.advice import Examples, Findings, check, examples_of, thumbnails_of
from implanting.classifier import ImageClassifier
from implanting.cli.parsing import named_settings, parse
from implanting.cli.verbs.findings import document, doubt, expected_accuracy
from implanting.config import ClassifierConfig, RunConfig, require
from implanting.console import print_document, print_table, print_text, say, show_progress
from implanting.images import inspect_folder
from implanting.runtime import set_threads
from implanting.version import __version__


@dataclass(frozen=True)
class Check:
    """Find photos that look mislabelled, copies and confused classes, and estimate the accuracy to expect.

    Every photo is classified by a classifier that was fitted without it. Nothing is changed.
    """

    examples: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER|CLASSIFIER")]
    """A folder with one sub-folder per class, or a classifier made by `implanting fit`."""
    most: int = 20
    """The largest number of lines shown per list; the rest are counted."""
    skip_bad: bool = False
    """Skip images that fail to decode, and list them."""
    json: bool = False
    """End with one JSON document on stdout, with all lines."""
    base: str = ClassifierConfig.base
    """The base network used to check a folder, or that of a slim classifier."""
    run: RunConfig = field(default_factory=RunConfig)


def main(arguments: Sequence[str]) -> int:
    """Classify every photo by a classifier fitted without it, and show the findings."""
    command = parse(Check, "check", arguments)
    require(command.most >= 1, "most", command.most, "1 or more")
    set_threads(command.run.threads)
    began = time.monotonic()
    examples = _examples(command, base_named="base" in named_settings(arguments))
    findings = check(examples)
    if command.json:
        facts = {"examples": str(command.examples), "code_version": __version__, "seconds": time.monotonic() - began}
        print_document({**facts, **document(examples, findings)})
    else:
        show(command, examples, findings)
    return 0


def _examples(command: Check, base_named: bool) -> Examples:
    if not command.examples.is_dir():
        given = command.base if base_named else None
        classifier = ImageClassifier.load(command.examples, base=given, device=command.run.device)
        return examples_of(classifier)
    found = inspect_folder(command.examples, skip_bad=command.skip_bad, progress=show_progress)
    for remark in found.remarks():
        say(f"{command.examples}: {remark}")
    classifier = ImageClassifier(command.base, implants=False, device=command.run.device)
    classifier.fit(found.paths, found.labels, progress=show_progress)
    return examples_of(classifier, [str(path) for path in found.paths], thumbnails_of(found.paths, show_progress))


def show(command: Check, examples: Examples, findings: Findings) -> None:
    """Print the accuracy to expect, then one table per kind of finding."""
    names, classes = examples.names, [str(label) for label in examples.classes]
    print_text(expected_accuracy(findings))
    if findings.unasked:
        alone = ", ".join(classes[number] for number in findings.unasked)
        print_text(f"nothing is known about classes with one photo: {alone}")
    rows = [doubt(examples, one) for one in findings.mislabelled]
    _table(command, "photos that look mislabelled", ["photo", "class", "looks like"], rows)
    across = [
        "one image in two classes, which no classifier can learn" if one.across else "" for one in findings.copies
    ]
    rows = [
        ["\n".join(names[image] for image in group.images), remark or "count as further photos and teach nothing"]
        for group, remark in zip(findings.copies, across, strict=True)
    ]
    if examples.thumbnails is None:
        print_text("copies of one image: not known, as the classifier does not keep its photos; check their folder")
    else:
        _table(command, "copies of one image", ["photos", ""], rows)
    counts = [int((examples.labels == number).sum()) for number in range(len(classes))]
    rows = [
        [_both(classes, pair.classes), f"{pair.mistakes} of {pair.examples}", _both(counts, pair.classes)]
        for pair in findings.confused
    ]
    _table(command, "classes to take more photos of", ["confused", "photos taken for the other", "photos now"], rows)


def _both(values: Sequence[object], pair: tuple[int, int]) -> str:
    return " and ".join(str(values[number]) for number in pair)


def _table(command: Check, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        print_text(f"{title}: none")
        return
    further = len(rows) - command.most
    more = f"and {further} more (--most, --json)" if further > 0 else ""
    print_table(title, columns, rows[: command.most], more, figures=False)
