"""`implanting fit`: make a classifier from photos, one sub-folder per class; or change a saved classifier."""

import shlex
import time
import warnings
from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from implanting.advice import Examples, Findings, check, examples_of
from implanting.classifier import KIND, ImageClassifier, from_text
from implanting.cli.parsing import named_settings, parse
from implanting.cli.verbs.findings import document, doubt, expected_accuracy, remarks_on_copies
from implanting.config import ClassifierConfig, RunConfig
from implanting.console import print_document, print_table, print_text, say, show_progress
from implanting.errors import ConfigError, ImplantsKept
from implanting.images import find_images, inspect_folder, undecodable
from implanting.runtime import check_destination, kind_of, set_threads
from implanting.version import __version__

SHOWN = 30
"""The largest number of classes that are listed; the rest are counted."""

FROM_PHOTOS = ("keep_supports", "image_size", "method")
"""Settings that a saved classifier cannot change."""

BY_TRAINING = {"head": "head", "implants": "implants", "seed": "random_state"}
"""Settings that have an effect only while a classifier is trained, and their names in it."""

DOUBTS = 5
"""The largest number of photos that are listed as mislabelled; `implanting check` lists all."""


@dataclass(frozen=True)
class Fit:
    """Learn classes from a folder of photos with one sub-folder per class, and save them as one file.

    With --from, start from a saved classifier instead, and add or remove classes; only new images are processed.
    """

    out: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """Write the classifier to this file (.safetensors)."""
    photos: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[FOLDER]")] = None
    """A folder with one sub-folder per class."""
    start: Annotated[Path | None, tyro.conf.arg(name="from", metavar="FILE")] = None
    """A saved classifier to change; settings that are not given stay as they are in it."""
    add: Annotated[tuple[str, ...], tyro.conf.arg(metavar="CLASS=IMAGES")] = ()
    """Classes to add, each with a folder, a pattern or an image."""
    add_images: Annotated[tuple[str, ...], tyro.conf.arg(metavar="CLASS=IMAGES")] = ()
    """More images of existing classes."""
    remove: Annotated[tuple[str, ...], tyro.conf.arg(metavar="CLASS...")] = ()
    """Classes to remove."""
    refit: bool = False
    """Train again after the change, as --head, --implants and --seed say if given; the classifier must have kept its
    examples (--keep-supports)."""
    slim: bool = False
    """Refer to the base network instead of including it in the file."""
    skip_bad: bool = False
    """Skip images that fail to decode, and list them."""
    seed: int = 0
    """Seed of the initial weights of implants."""
    overwrite: bool = False
    """Let --out replace the classifier of --from, or a file that is not a classifier."""
    json: bool = False
    """End with one JSON document on stdout."""
    classifier: ClassifierConfig = field(default_factory=ClassifierConfig)
    run: RunConfig = field(default_factory=RunConfig)


def main(arguments: Sequence[str]) -> int:
    """Fit or change a classifier, then save it; nothing is written unless everything succeeds."""
    command = parse(Fit, "fit", arguments)
    if command.photos is not None and (command.add or command.add_images or command.remove or command.refit):
        raise ConfigError("--add, --add-images, --remove and --refit change a saved classifier: name it with --from")
    check_destination(
        command.out,
        replaces=lambda path: kind_of(path) == KIND,
        inputs=(command.start, Path(command.classifier.base)),
        overwrite=command.overwrite,
    )
    set_threads(command.run.threads)
    began = time.monotonic()
    classifier, examples = learned(command, named_settings(arguments))
    classifier.save(command.out, slim=command.slim)
    show(command, classifier, examples, time.monotonic() - began)
    return 0


def learned(command: Fit, named: Set[str]) -> tuple[ImageClassifier, Examples | None]:
    """Return the classifier to save, and its examples if there are predictions for held-out ones.

    `named` are the settings given on the command line: only these change a saved classifier.
    """
    if command.photos is not None and command.start is None:
        return _fresh(command, command.photos)
    if command.start is not None and command.photos is None:
        changed = _changed(command, command.start, named)
        return changed, None if changed.held_out_ is None else examples_of(changed)
    raise ConfigError("name either a folder of photos or a classifier to change (--from FILE), not both")


def _fresh(command: Fit, photos: Path) -> tuple[ImageClassifier, Examples | None]:
    found = inspect_folder(photos, skip_bad=command.skip_bad, progress=show_progress)
    for remark in found.remarks():
        say(f"{photos}: {remark}")
    for remark in remarks_on_copies(found):
        say(f"{photos}: {remark}")
    classifier = ImageClassifier(**vars(command.classifier), random_state=command.seed, device=command.run.device)
    classifier.fit(found.paths, found.labels, progress=show_progress)
    if classifier.held_out_ is None:
        return classifier, None
    return classifier, examples_of(classifier, [str(path) for path in found.paths])


def _changed(command: Fit, start: Path, named: Set[str]) -> ImageClassifier:
    """Load a saved classifier, and add and remove classes."""
    base = command.classifier.base if "base" in named else None
    classifier = ImageClassifier.load(start, base=base, device=command.run.device)
    _change_settings(classifier, command, named)
    with warnings.catch_warnings(action="ignore", category=ImplantsKept):  # reported below, in terms of this command
        for text in command.add:
            label, paths = _class_and_images(classifier, "--add", text, command.skip_bad)
            if label in classifier.classes_.tolist():
                raise ConfigError(f"--add {text}: class {label!r} is there already; use --add-images for more of it")
            classifier.add_class(label, paths)
        for text in command.add_images:
            label, paths = _class_and_images(classifier, "--add-images", text, command.skip_bad)
            classifier.add_images(paths, [label] * len(paths))
        for name in command.remove:
            classifier.remove_class(from_text(name, classifier.classes_))
    if command.refit:
        return classifier.refit()
    if classifier.learned_.implants is not None and (command.add or command.add_images or command.remove):
        again = "--refit" if classifier.supports_ is not None else "fitting all photos with --keep-supports"
        say(
            "the implants, and the calibration of probabilities, stay as they were for the earlier classes, so "
            f"probabilities are less reliable; {again} trains and calibrates again"
        )
    return classifier


def _change_settings(classifier: ImageClassifier, command: Fit, named: Set[str]) -> None:
    """Apply the named settings, if they can be changed after fitting and would have an effect."""
    given = {**vars(command.classifier), "seed": command.seed}
    for name in given:
        own = BY_TRAINING.get(name, name)
        if name == "base" or name not in named or given[name] == getattr(classifier, own):
            continue
        if name in FROM_PHOTOS:
            raise ConfigError(f"`{name}` cannot be changed afterwards: fit again from the photos")
        if name in BY_TRAINING and not command.refit:
            raise ConfigError(f"`{name}` changes nothing without training: add `refit`, or fit again from the photos")
        setattr(classifier, own, given[name])
    classifier.check_settings(classifier.classes_)


def _class_and_images(classifier: ImageClassifier, flag: str, text: str, skip_bad: bool) -> tuple[Hashable, list[Path]]:
    name, separator, images = text.partition("=")
    if not (name and separator and images):
        raise ConfigError(f"{flag} {text}: expected CLASS=IMAGES, such as elm=elm-photos/")
    paths, bad = find_images([images], skip_bad), []
    if skip_bad:
        bad = undecodable(paths, show_progress)
        for failure in bad:
            say(f"left out: {failure.reason}")
    left_out = {failure.index for failure in bad}
    return from_text(name, classifier.classes_), [path for at, path in enumerate(paths) if at not in left_out]


def show(command: Fit, classifier: ImageClassifier, examples: Examples | None, seconds: float) -> None:
    """Show the classes, the accuracy to expect, and the most doubtful photos."""
    findings = None if examples is None else check(examples)
    counts = classifier.learned_.counts.tolist()
    implants = classifier.learned_.implants is not None
    if command.json:
        classes = dict(zip(map(str, classifier.classes_.tolist()), counts, strict=True))
        print_document(
            {"out": str(command.out), "classes": classes, "base": classifier.base_.name, "implants": implants}
            | {"method": classifier.method}
            | {"calibration": classifier.learned_.calibration.told_by, "seconds": seconds, "code_version": __version__}
            | ({"examples": document(examples, findings)} if examples is not None and findings is not None else {})
        )
        return
    rows = [[str(label), str(count)] for label, count in zip(classifier.classes_.tolist(), counts, strict=True)]
    shown = rows if len(rows) <= SHOWN else [*rows[: SHOWN - 1], [f"and {len(rows) - SHOWN + 1} more", ""]]
    print_table(
        str(command.out),
        ["class", "images"],
        shown,
        f"{len(rows)} classes on {classifier.base_.name}, {'with' if implants else 'without'} implants, "
        f"{seconds:.1f} s",
    )
    if examples is not None and findings is not None:
        print_text(expected_accuracy(findings, classifier.unknown, classifier.refuse))
        _show_doubts(command, examples, findings)
    print_text(f"try: implanting predict {shlex.quote(str(command.out))} IMAGE")


def _show_doubts(command: Fit, examples: Examples, findings: Findings) -> None:
    if not findings.mislabelled:
        return
    rows = [doubt(examples, one) for one in findings.mislabelled[:DOUBTS]]
    further = len(findings.mislabelled) - len(rows)
    source = shlex.quote(str(command.photos or command.out))
    more = f"{further} more: implanting check {source}" if further else ""
    print_table("photos that look mislabelled", ["photo", "class", "looks like"], rows, more, figures=False)
