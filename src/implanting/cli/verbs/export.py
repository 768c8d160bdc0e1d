"""`implanting export`: a fitted classifier as one ONNX file or one HTML page, checked by onnxruntime."""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import torch
import tyro

from implanting.classifier import ImageClassifier
from implanting.cli.parsing import parse
from implanting.config import ThreadsConfig
from implanting.console import print_document, print_text, say
from implanting.export import (
    MARK,
    RUNTIME,
    Agreement,
    check,
    installed,
    onnx_bytes,
    page_bytes,
    require_exporter,
    sample_photos,
)
from implanting.images import decode_batches, find_images, list_sources
from implanting.runtime import check_destination, holds, set_threads, write_atomically
from implanting.version import __version__


@dataclass(frozen=True)
class Export:
    """Write a classifier as one ONNX graph, from a batch of uint8 images [n, size, size, 3] to probabilities [n, way]
    and open-set scores [n]. Class names, image size, resizing and the threshold of "none of these" are in its metadata.
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CLASSIFIER")]
    """A classifier made by `implanting fit`."""
    onnx: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """File for the graph; default: the name of the classifier with the ending .onnx, unless --html is given."""
    html: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """File for a page that classifies photos in the browser, offline, without a server; the graph is part of it."""
    title: str | None = None
    """Title of that page; default: the name of the classifier."""
    heat_map: bool = False
    """Add an output with a map for each class, [n, classes, rows, columns]: with a head (the default for photos) the
    evidence of each location, what it adds to the score of the class; without one its cosine with the class."""
    check: Annotated[tuple[str, ...], tyro.conf.arg(metavar="IMAGES")] = ()
    """Images, folders or patterns on which onnxruntime must agree; default: eight pieces of two photos."""
    base: str | None = None
    """The base network of a slim classifier, if it is not found by its name."""
    overwrite: bool = False
    """Let --onnx and --html replace files that this command has not written."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)


def main(arguments: Sequence[str]) -> int:
    """Export, check, and only then write: a graph that computes something else is never written."""
    command = parse(Export, "export", arguments)
    require_exporter()
    outs = _outs(command)
    set_threads(command.run.threads)
    began = time.monotonic()
    classifier = ImageClassifier.load(command.file, base=command.base, device="cpu")  # where a graph is traced
    content = onnx_bytes(classifier, command.heat_map)
    agreement = _checked(command, classifier, content)
    contents = {
        out: content if kind == "onnx" else page_bytes(classifier, content, command.title or command.file.stem)
        for kind, out in outs.items()
    }
    for out, written in contents.items():
        write_atomically(out, written)
    show(command, contents, classifier, agreement, time.monotonic() - began)
    return 0


def _outs(command: Export) -> dict[str, Path]:
    """The files to write, by the setting that names them; raise an error if one of them cannot be written."""
    onnx = command.onnx or (None if command.html else command.file.with_suffix(".onnx"))
    marks = {"onnx": b"producer\x12\x0aimplanting", "html": MARK.encode()}
    outs = {kind: out for kind, out in {"onnx": onnx, "html": command.html}.items() if out is not None}
    for kind, out in outs.items():
        replaces, inputs = holds(marks[kind]), (command.file,)
        check_destination(out, kind, f".{kind}", replaces=replaces, inputs=inputs, overwrite=command.overwrite)
    return outs


def _checked(command: Export, classifier: ImageClassifier, content: bytes) -> Agreement | None:
    """The agreement with onnxruntime on the named images or on sample photos; None if it is not installed."""
    if not installed(RUNTIME):
        say(f"the graph is not checked, since onnxruntime is not installed: pip install {RUNTIME}")
        return None
    images = sample_photos(classifier.learned_.size)
    if command.check:
        sources = list_sources(find_images(list(command.check)))
        images = torch.cat([batch.images for batch in decode_batches(sources, classifier.learned_.size)])
    return check(content, classifier, images)


def show(
    command: Export,
    contents: dict[Path, bytes],
    classifier: ImageClassifier,
    agreement: Agreement | None,
    seconds: float,
) -> None:
    """Print what was written, and how well it agrees with onnxruntime."""
    if command.json:
        out, content = next(iter(contents.items()))
        document = {"out": str(out), "bytes": len(content), "classes": classifier.classes_.tolist()}
        document |= {"files": {str(path): len(written) for path, written in contents.items()}}
        document |= {"check": agreement and dataclasses.asdict(agreement), "seconds": seconds}
        print_document({**document, "code_version": __version__})
        return
    for out, content in contents.items():
        print_text(f"{out}: {len(classifier.classes_)} classes, {len(content) / 1e6:.1f} MB, {seconds:.1f} s")
    if agreement is not None:
        print_text(
            f"onnxruntime names the same class for {agreement.same_labels} of {agreement.images} images; "
            f"the largest difference of a probability is {agreement.largest_difference:.1e}"
        )
