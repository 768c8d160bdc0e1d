"""`implanting predict`: classify images, and print or write the answers as they come."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from implanting.bulk import (
    Shard,
    SortedImages,
    columns,
    content_digest,
    csv_line,
    holds_answers,
    is_made_by,
    json_line,
    read_images,
    row_format,
    row_of,
    spelled,
    write_record,
    write_rows,
)
from implanting.classifier import Answer, ImageClassifier
from implanting.cli.parsing import parse
from implanting.config import RunConfig, require
from implanting.console import (
    answers_are_watched,
    print_bytes,
    print_document,
    print_row,
    print_text,
    say,
    show_progress,
    shown_width,
    telling_warnings,
)
from implanting.errors import CannotRefuse, ConfigError, DataError
from implanting.images import Failure, find_images, folders_in, other_files, remark_on_others
from implanting.runtime import check_destination, set_threads, silent
from implanting.version import __version__

WIDEST = 60
"""Smallest width of the column of image names in a table."""


@dataclass(frozen=True)
class Predict:
    """Predict the class of each image, with its probability.

    Images are files, folders (with all folders inside), patterns in quotes, or - for paths on standard input. Answers
    are printed as they come; an image that cannot be read has a row that says why.
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CLASSIFIER")]
    """A classifier made by `implanting fit`."""
    images: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="IMAGE...", help_behavior_hint="(required)")
    ]
    """Image files, folders, patterns, or - for standard input."""
    top: int = 1
    """How many of the most probable classes to show."""
    csv: bool = False
    """Comma-separated lines on stdout instead of a table."""
    jsonl: bool = False
    """One line of JSON per image on stdout instead of a table."""
    json: bool = False
    """End with one JSON document on stdout."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the answers to this file (.jsonl, .csv or .parquet) instead of stdout."""
    shard: Annotated[str | None, tyro.conf.arg(metavar="I/N")] = None
    """Classify only the I-th of N parts of the images, into OUT-I-of-N; a part that the same command has finished is
    skipped, except with --sort-into."""
    overwrite: bool = False
    """Let --out replace a file that holds no answers."""
    sort_into: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Copy each image into a folder of its class in DIR; images of no class and doubtful ones get their own folders."""
    link: bool = False
    """With --sort-into: make links instead of copies."""
    min_probability: float = 0.0
    """With --sort-into: an answer below this probability is doubtful."""
    unknown: str | None = None
    """Label for images that fit no class; default: that of the classifier."""
    refuse: float | None = None
    """Share of images of known classes that may be answered with --unknown, or with that label of the classifier;
    default: that of the classifier."""
    base: str | None = None
    """The base network of a slim classifier, if it is not found by name."""
    run: RunConfig = field(default_factory=RunConfig)


@dataclass
class Tally:
    """Counts the answers as they pass."""

    images: int = 0
    unreadable: int = 0
    reason: str = ""
    """The reason why the first unreadable image could not be read."""
    doubtful: int = 0

    def watch(self, answers: Iterable[Answer | Failure]) -> Iterator[Answer | Failure]:
        """Yield the answers unchanged while counting them."""
        for each in answers:
            self.images += 1
            if isinstance(each, Failure):
                self.unreadable += 1
                self.reason = self.reason or each.reason
            yield each


def main(arguments: Sequence[str]) -> int:
    """Classify the images, and show or write each answer as it comes."""
    command = parse(Predict, "predict", arguments)
    _check(command)
    set_threads(command.run.threads)
    shard = Shard.parse(command.shard) if command.shard else None
    out = shard.path(command.out) if shard and command.out else command.out
    if out is not None:
        _check_out(out, command)
    paths = find_images(command.images, skip_bad="-" in command.images)
    if others := other_files(folders_in(command.images)):
        say(remark_on_others(others))
    paths = shard.of(paths) if shard else paths
    made_by = _made_by(command) if shard else {}
    if shard and out and command.sort_into is None and _finished(out, paths, made_by):
        return 0
    began, tally = time.monotonic(), Tally()
    classifier = _loaded(command)
    with telling_warnings(CannotRefuse):
        watched = out is None and not command.json and answers_are_watched()
        answers = tally.watch(
            classifier.answer_each(paths, top=command.top, progress=silent if watched else show_progress)
        )
        if command.sort_into is not None:
            sorted_images = SortedImages.outside(command.sort_into, command.images, _labels(classifier), command.link)
            answers = _sorted_into(sorted_images, answers, command.min_probability, tally)
        results = _put_out(command, classifier, out, answers, paths)
    if shard and out:
        write_record(out, made_by)
    _conclude(command, out, tally, time.monotonic() - began, results)
    return 0


def _check(command: Predict) -> None:
    require(command.top >= 1, "top", command.top, "1 or more")
    require(0 <= command.min_probability <= 1, "min_probability", command.min_probability, "from 0 to 1")
    if command.csv + command.jsonl + command.json > 1:
        raise ConfigError("--csv, --jsonl and --json exclude each other: choose one")
    if command.out is not None:
        if command.csv or command.jsonl:
            raise ConfigError("--out sets the format by its extension: leave out --csv and --jsonl")
        row_format(command.out)
    if command.shard is not None:
        Shard.parse(command.shard)
        if command.out is None:
            raise ConfigError("--shard needs a file to write to: name it with --out, such as --out answers.csv")
    if command.sort_into is None and (command.link or command.min_probability):
        raise ConfigError("--link and --min-probability are for sorting: name a folder with --sort-into")


def _check_out(out: Path, command: Predict) -> None:
    """Refuse to replace a file that has no answers of an earlier run, or that is an input of this one."""
    inputs = [command.file, *map(Path, command.images)]
    if "-" in command.images:
        inputs.append(Path("/dev/stdin"))  # the file that a shell gives as standard input; a pipe is none
    check_destination(out, "out", out.suffix, replaces=holds_answers, inputs=inputs, overwrite=command.overwrite)


def _loaded(command: Predict) -> ImageClassifier:
    classifier = ImageClassifier.load(command.file, base=command.base, device=command.run.device)
    if command.unknown is not None:
        classifier.unknown = command.unknown
    if command.refuse is not None:
        classifier.refuse = command.refuse
    classifier.check_settings(classifier.classes_)
    if command.refuse is not None and classifier.unknown is None:
        raise ConfigError(f"`refuse` has no effect, as {command.file} always answers with a class: add `unknown`")
    return classifier


def _labels(classifier: ImageClassifier) -> list[Any]:
    unknown = [] if classifier.unknown is None else [classifier.unknown]
    return [*classifier.classes_.tolist(), *unknown]


def _made_by(command: Predict) -> dict[str, Any]:
    """All that decides the rows, except the images; the classifier's file holds its classes and its own settings."""
    return {
        "classifier": content_digest(command.file),
        "top": command.top,
        "unknown": command.unknown,
        "refuse": command.refuse,
    }


def _finished(out: Path, paths: Sequence[Path], made_by: Mapping[str, Any]) -> bool:
    """Whether a shard exists, is complete, is of these images, and was made in the same way."""
    if not out.exists():
        return False
    found, needed = read_images(out), [spelled(str(path), out.suffix) for path in paths]
    if found == needed and is_made_by(out, made_by):
        say(f"{out}: finished before, {len(needed)} images; nothing to do")
        return True
    if found is None:
        say(f"{out} is cut off or damaged: it is made again")
    elif found == needed:
        say(f"{out} is not known to be made by this classifier with these options: it is made again")
    else:
        say(f"{out} has {len(found)} rows, which are not those of the {len(needed)} images named: it is made again")
    return False


def _sorted_into(
    sorted_images: SortedImages, answers: Iterable[Answer | Failure], least: float, tally: Tally
) -> Iterator[Answer | Failure]:
    """Sort each image into its folder as its answer passes; unreadable images are not sorted."""
    for each in answers:
        if isinstance(each, Answer):
            label, probability = each.ranking[0]
            doubtful = each.label == label and probability < least
            tally.doubtful += doubtful
            sorted_images.place(Path(str(each.source)), each.label, doubtful)
        yield each


def _put_out(
    command: Predict,
    classifier: ImageClassifier,
    out: Path | None,
    answers: Iterable[Answer | Failure],
    paths: Sequence[Path],
) -> list[Answer | Failure]:
    """Write or print the answers; only a JSON document keeps them in memory."""
    top = min(command.top, len(classifier.classes_))
    if out is not None:
        write_rows(out, (row_of(each, top) for each in answers), top)
        return []
    if command.json:
        return list(answers)
    if command.csv:
        print_bytes(csv_line(columns(top)))
    if command.csv or command.jsonl:
        for each in answers:
            row = row_of(each, top)
            print_bytes(csv_line(row.values()) if command.csv else json_line(row))
        return []
    widths = [_width("image", paths), _width("class", _labels(classifier))]
    print_text(command.file.name)
    print_row(["image", "class", "most likely"], widths)
    for each in answers:
        print_row(_cells(each, top), widths)
    return []


def _width(heading: str, texts: Iterable[object]) -> int:
    return min(WIDEST, max(map(shown_width, [heading, *map(str, texts)])))


def _cells(each: Answer | Failure, top: int) -> list[str]:
    if isinstance(each, Failure):
        return [str(each.source), "", each.reason]
    ranked = ", ".join(f"{label} {probability:.2f}" for label, probability in each.ranking[:top])
    return [str(each.source), str(each.label), ranked]


def _conclude(
    command: Predict, out: Path | None, tally: Tally, seconds: float, results: Sequence[Answer | Failure]
) -> None:
    if tally.unreadable == tally.images:
        raise DataError(
            tally.reason
            if tally.images == 1
            else f"none of the {tally.images} images could be read, such as: {tally.reason}"
        )
    if command.json:
        facts = {"classifier": str(command.file), "images": tally.images - tally.unreadable, "seconds": seconds}
        left_out = [{"image": str(one.source), "reason": one.reason} for one in results if isinstance(one, Failure)]
        written = {"out": str(out), "unreadable": tally.unreadable} if out else {"left_out": left_out}
        rows = {} if out else {"results": [_document(one, command.top) for one in results if isinstance(one, Answer)]}
        print_document({**facts, "code_version": __version__, **written, **rows})
    elif out is not None:
        print_text(f"{out}: {_counted(tally, command)}, {seconds:.1f} s")
    elif not command.csv and not command.jsonl:
        print_text(f"{_counted(tally, command)}, {seconds:.1f} s")
    if tally.unreadable and (command.json or command.csv or command.jsonl or out):
        say(f"{tally.unreadable} of {tally.images} images could not be read, such as: {tally.reason}")


def _counted(tally: Tally, command: Predict) -> str:
    parts = [f"{tally.images} {'image' if tally.images == 1 else 'images'}"]
    if tally.unreadable:
        parts.append(f"{tally.unreadable} of them unreadable")
    if command.sort_into is not None:
        parts.append(f"{tally.doubtful} of them doubtful, sorted into {command.sort_into}")
    return ", ".join(parts)


def _document(answer: Answer, top: int) -> dict[str, Any]:
    """Convert an answer to a row of a JSON document."""
    ranking = [{"class": label, "probability": probability} for label, probability in answer.ranking[:top]]
    row = row_of(answer)
    return {name: row[name] for name in columns(1) if name != "error"} | {"top": ranking}
