"""`implanting score`: measure the accuracy of a classifier on labelled images, per class, with a report."""

import dataclasses
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from implanting.bulk import csv_line
from implanting.classifier import Answer, ImageClassifier, from_text
from implanting.cli.parsing import parse
from implanting.config import RunConfig, require
from implanting.console import print_document, print_table, print_text, say, show_progress
from implanting.errors import ConfigError
from implanting.fewshot import Share
from implanting.images import inspect_folder
from implanting.report import NONE, Bin, Score, ScoreReport, Shown, bins_of, is_report, telling, write_report
from implanting.runtime import check_destination, holds, set_threads, write_atomically
from implanting.version import __version__

CONFUSIONS = 5
"""The number of most common wrong answers that are printed."""


@dataclass(frozen=True)
class ScoreCommand:
    """Measure the accuracy of a classifier on a folder of labelled images, one sub-folder per class.

    The accuracy has a 95 % interval. A folder that is not named after a class of the classifier is reported. Its images
    count as fitting no class: the right answer for them is the label given to `implanting fit --unknown`.
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CLASSIFIER")]
    """A classifier made by `implanting fit`."""
    labelled: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """A folder with one sub-folder per class."""
    report: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write a report to this file (.html): confusion matrix, and heat maps of right and wrong answers."""
    shown: int = 12
    """The largest number of right answers, and of wrong ones, that the report shows."""
    answers: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write one row per image to this file (.csv): its true class, the answer and its probability."""
    skip_bad: bool = False
    """Skip images that fail to decode, and list them."""
    overwrite: bool = False
    """Let --report replace a page that was not written by this command."""
    json: bool = False
    """End with one JSON document on stdout."""
    base: str | None = None
    """The base network of a slim classifier, if it is not found by name."""
    run: RunConfig = field(default_factory=RunConfig)


def main(arguments: Sequence[str]) -> int:
    """Classify all images, and show how many answers are right."""
    command = parse(ScoreCommand, "score", arguments)
    require(command.shown >= 0, "shown", command.shown, "0 or more")
    if command.report is not None:
        endings, inputs = (".html", ".htm"), (command.file,)
        check_destination(
            command.report, "report", endings, replaces=is_report, inputs=inputs, overwrite=command.overwrite
        )
    if command.answers is not None:
        replaces, inputs = holds(b"image,true_class,"), (command.file,)
        check_destination(
            command.answers, "answers", ".csv", replaces=replaces, inputs=inputs, overwrite=command.overwrite
        )
    set_threads(command.run.threads)
    began = time.monotonic()
    classifier = ImageClassifier.load(command.file, base=command.base, device=command.run.device)
    found = inspect_folder(command.labelled, skip_bad=command.skip_bad, progress=show_progress)
    for remark in found.remarks():
        say(f"{command.labelled}: {remark}")
    labels = [from_text(label, classifier.classes_) for label in found.labels]
    answers, _ = classifier.answers(found.paths, progress=show_progress)
    score = _score_of(classifier, labels, answers)
    remarks = [*_strange_folders(classifier, labels), *_fitted_to(answers)]
    show(command, score, remarks, time.monotonic() - began)
    for remark in remarks:
        say(f"{command.labelled}: {remark}")
    if command.answers is not None:  # last, so that a full disk loses no results
        write_atomically(command.answers, _as_csv(score, labels, answers))
    if command.report is not None:
        write_report(_report_of(command, classifier, score, labels, answers, remarks), command.report)
    return 0


def _strange_folders(classifier: ImageClassifier, labels: Sequence[Any]) -> list[str]:
    """List the folders that are not named after a class, each with the class of the most similar name."""
    known = {str(label).casefold(): label for label in classifier.classes_.tolist()}
    remarks = []
    for label, images in Counter(labels).items():
        if label in classifier.classes_.tolist():
            continue
        nearest = get_close_matches(str(label).casefold(), known, n=1)
        guess = (
            f"; the nearest class is {str(known[nearest[0]])!r}: rename the folder if that is meant" if nearest else ""
        )
        never = "" if classifier.unknown is not None else ", which this classifier never answers"
        remarks.append(
            f"folder {str(label)!r} is not a class, so its {images} images count as none of these{never}{guess}"
        )
    return remarks


def _fitted_to(answers: Sequence[Answer]) -> list[str]:
    seen = sum(answer.seen for answer in answers)
    if not seen:
        return []
    return [
        f"{seen} of {len(answers)} images are among those that the classifier was fitted to: how often it is right on "
        "them says nothing about new images, so score others"
    ]


def _as_csv(score: Score, labels: Sequence[Any], answers: Sequence[Answer]) -> bytes:
    """One row per image; an answer is right where the score counts it as right, also for images of no class."""
    names = ["image", "true_class", "class", "right", "likeliest", "likeliest_probability", "fitted_to"]
    lines = [csv_line(names)]
    for label, answer, right in zip(labels, answers, score.right.tolist(), strict=True):
        likeliest, probability = answer.ranking[0]
        judged, seen = (str(truth).lower() for truth in (right, answer.seen))
        lines.append(csv_line([str(answer.source), label, answer.label, judged, likeliest, probability, seen]))
    return b"".join(lines)


def _score_of(classifier: ImageClassifier, labels: Sequence[Any], answers: Sequence[Answer]) -> Score:
    """Convert true and predicted classes to numbers; a label that is not a class is "none of these"."""
    numbers = {label: number for number, label in enumerate(classifier.classes_.tolist())}
    if not any(label in numbers for label in labels):
        raise ConfigError(
            f"none of the folders is named after a class ({', '.join(map(str, list(numbers)[:5]))}): "
            "name one sub-folder per class"
        )
    truth = np.array([numbers.get(label, NONE) for label in labels])
    given = np.array([numbers.get(answer.label, NONE) for answer in answers])
    return Score(tuple(map(str, numbers)), truth, given)


def _report_of(
    command: ScoreCommand,
    classifier: ImageClassifier,
    score: Score,
    labels: Sequence[Any],
    answers: Sequence[Answer],
    remarks: Sequence[str],
) -> ScoreReport:
    """Make the report, with heat maps of the most instructive answers."""
    sure = np.array([answer.ranking[0][1] for answer in answers])

    def shown(images: Sequence[int], doing: str) -> list[Shown]:
        return [
            _shown_image(classifier, labels[image], answers[image])
            for image in show_progress(images, doing, len(images))
        ]

    right, wrong = telling(score, sure, command.shown)
    settings = {"classifier": command.file, "images": command.labelled, "base": classifier.base_.name}
    settings |= {"implants": classifier.learned_.implants is not None, "unknown": classifier.unknown}
    return ScoreReport(
        title=f"{command.file.name} on {command.labelled.name}",
        score=score,
        right=shown(right, "heat maps of right answers"),
        wrong=shown(wrong, "heat maps of wrong answers"),
        settings=settings,
        code_version=__version__,
        unknown=str(classifier.unknown or "none of these"),
        reliability=_reliability(score, labels, answers),
        remarks=remarks,
    )


def _reliability(score: Score, labels: Sequence[Any], answers: Sequence[Answer]) -> list[Bin]:
    """Bin the likeliest classes of images of known classes, whether or not they were answered as unknown."""
    known = score.truth != NONE
    sure = np.array([answer.ranking[0][1] for answer in answers])
    right = np.array([answer.ranking[0][0] == label for answer, label in zip(answers, labels, strict=True)])
    return bins_of(sure[known], right[known])


def _shown_image(classifier: ImageClassifier, label: Any, answer: Answer) -> Shown:
    """Explain an image by the predicted class, and by the true class or the second most probable."""
    explanation = classifier.explain(answer.source, top=len(classifier.classes_))
    named = dataclasses.replace(explanation, classes=tuple(map(str, explanation.classes)))
    return Shown.of(str(answer.source), str(label), str(answer.label), named)


def show(command: ScoreCommand, score: Score, remarks: Sequence[str], seconds: float) -> None:
    """Print the table, or the JSON document."""
    names = (*score.classes, "none of these")
    if command.json:
        classes = [_share_row(name, share) for name, share in zip(names, score.per_class, strict=True) if share.total]
        print_document(
            {"classifier": str(command.file), "data": str(command.labelled), "code_version": __version__}
            | {"seconds": seconds, "results": [score.row()], "classes": classes}
            | {"labels": names, "confusion": score.confusion.tolist(), "remarks": list(remarks)}
        )
        return
    rows = [[name, str(share)] for name, share in zip(names, score.per_class, strict=True) if share.total]
    mistakes = "; ".join(
        f"{names[one.truth]} taken for {names[one.answer]} {one.images}x" for one in score.confusions(CONFUSIONS)
    )
    print_table(
        f"{command.file.name} on {command.labelled}",
        ["class", "right (95 % interval)"],
        [*rows, ["all", str(score.accuracy)]],
        f"commonest mistakes: {mistakes or 'none'}",
    )
    files = (("report", command.report), ("answers", command.answers))
    print_text("; ".join([*(f"{name}: {file}" for name, file in files if file), f"{seconds:.1f} s"]))


def _share_row(name: str, share: Share) -> dict[str, Any]:
    """Make the row of a class for a JSON document."""
    low, high = share.interval
    return {"class": name, "mean": share.mean, "low": low, "high": high, "images": share.total}
