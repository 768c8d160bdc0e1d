"""`implanting predict`: the class of each of many images."""

import csv
import io
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from implanting.classifier import Answer, ImageClassifier
from implanting.cli.parsing import parse
from implanting.config import RunConfig, require
from implanting.console import print_document, print_table, print_text, say, show_progress, telling_warnings
from implanting.errors import CannotRefuse, ConfigError
from implanting.images import Failure, find_images
from implanting.runtime import set_threads
from implanting.version import __version__


@dataclass(frozen=True)
class Predict:
    """The class of each image, with its probability.

    Images are files, folders, patterns in quotes, or - for paths on standard input.
    """

    file: Annotated[Path, tyro.conf.Positional]
    """A classifier made by `implanting fit`."""
    images: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Image files, folders, patterns, or - for standard input."""
    top: int = 1
    """How many of the most probable classes to show."""
    csv: bool = False
    """Comma-separated lines on stdout instead of a table."""
    json: bool = False
    """End with one JSON document on stdout."""
    skip_bad: bool = False
    """Go on past images that do not decode, and say which at the end."""
    unknown: str | None = None
    """Label to answer where an image fits no class; default: as the classifier was made."""
    refuse: float | None = None
    """Share of images of known classes that may be answered so; default: as the classifier was made."""
    base: str | None = None
    """The base network of a slim classifier, where it is not found by name."""
    run: RunConfig = field(default_factory=RunConfig)


def main(arguments: Sequence[str]) -> int:
    """Classify, then show."""
    command = parse(Predict, "predict", arguments)
    require(command.top >= 1, "top", command.top, "1 or more")
    if command.csv and command.json:
        raise ConfigError("--csv and --json exclude each other: choose one")
    set_threads(command.run.threads)
    paths = find_images(command.images, command.skip_bad)
    began = time.monotonic()
    classifier = ImageClassifier.load(command.file, base=command.base, device=command.run.device)
    if command.unknown is not None:
        classifier.unknown = command.unknown
    if command.refuse is not None:
        classifier.refuse = command.refuse
    classifier.check_settings(classifier.classes_)
    with telling_warnings(CannotRefuse):
        answers, failures = classifier.answers(
            paths, top=command.top, skip_bad=command.skip_bad, progress=show_progress
        )
    for failure in failures:
        say(f"left out: {failure.reason}")
    show(command, answers, failures, time.monotonic() - began)
    return 0


def show(command: Predict, answers: Sequence[Answer], failures: Sequence[Failure], seconds: float) -> None:
    """A line per image."""
    if command.json:
        results = [document(answer, command.top) for answer in answers]
        left_out = [{"image": str(failure.source), "reason": failure.reason} for failure in failures]
        facts = {"classifier": str(command.file), "images": len(results), "seconds": seconds}
        print_document({**facts, "code_version": __version__, "left_out": left_out, "results": results})
        return
    if command.csv:
        print_text(_as_csv(answers, command.top))
        return
    rows = [[str(answer.source), str(answer.label), _most_likely(answer, command.top)] for answer in answers]
    columns = ["image", "class", "probability" if command.top == 1 else "most likely"]
    print_table(command.file.name, columns, rows, f"{len(rows)} images, {seconds:.1f} s")


def _most_likely(answer: Answer, top: int) -> str:
    """`0.81`, or of several classes `oak 0.81, elm 0.12`."""
    if top == 1:
        return f"{answer.ranking[0][1]:.2f}"
    return ", ".join(f"{label} {probability:.2f}" for label, probability in answer.ranking[:top])


def _as_csv(answers: Sequence[Answer], top: int) -> str:
    """A line per image, with two columns for each of the most likely classes."""
    ranks = range(1, min(top, len(answers[0].ranking) if answers else 1) + 1)
    ranked = [name for rank in ranks for name in (f"class {rank}", f"probability {rank}")]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["image", "class", *(ranked if top > 1 else ["probability"])])
    writer.writerows(line(answer, top) for answer in answers)
    return text.getvalue().rstrip("\n")


def line(answer: Answer, top: int) -> list[str]:
    """An answer as a line of the csv."""
    if top == 1:
        return [str(answer.source), str(answer.label), f"{answer.ranking[0][1]:.4f}"]
    ranked = [cell for label, probability in answer.ranking[:top] for cell in (str(label), f"{probability:.4f}")]
    return [str(answer.source), str(answer.label), *ranked]


def document(answer: Answer, top: int) -> dict[str, Any]:
    """An answer as a row of a JSON document."""
    ranking = [{"class": label, "probability": probability} for label, probability in answer.ranking[:top]]
    return {
        "image": str(answer.source),
        "class": answer.label,
        "probability": answer.ranking[0][1],
        "open_set_score": answer.open_set_score,
        "top": ranking,
    }
