"""Export a fitted classifier as one ONNX graph from uint8 images to probabilities; metadata has everything else.

The graph is checked before it is written: onnxruntime must give the same results as the classifier.
"""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import jaxtyping
import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from implanting.classifier import ImageClassifier, plain_labels
from implanting.errors import ExportError, MissingExtra
from implanting.export.module import ExportedClassifier
from implanting.images import RESIZING
from implanting.version import __version__

if TYPE_CHECKING:
    import onnxruntime

EXPORTER, RUNTIME = ("onnx", "onnxscript"), "onnxruntime"
"""The packages that write a graph, and the one that runs it."""

INPUT, OUTPUTS = "images", ("probabilities", "open_set_score", "heat_map")

TOLERANCE = 1e-4
"""Largest allowed difference between a probability by PyTorch and by onnxruntime."""


def installed(*packages: str) -> bool:
    """Whether all of these packages are installed."""
    return all(find_spec(package) is not None for package in packages)


def require_exporter() -> None:
    """Raise an error, before any slow work, if the packages are missing."""
    if not installed(*EXPORTER):
        packages = " ".join((*EXPORTER, RUNTIME))
        raise MissingExtra(f"exporting needs the packages {' and '.join(EXPORTER)}: pip install {packages}")


def onnx_bytes(classifier: ImageClassifier, heat_map: bool = False) -> bytes:
    """Return the content of an ONNX file with the complete classifier."""
    require_exporter()
    module = ExportedClassifier(classifier.learned_, heat_map).eval()
    trial = torch.zeros(2, classifier.learned_.size, classifier.learned_.size, 3, dtype=torch.uint8)
    with _tracing():
        program = torch.onnx.export(
            module,
            (trial,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            input_names=[INPUT],
            output_names=list(OUTPUTS[: 3 if heat_map else 2]),
            verbose=False,
        )
    if program is None:
        raise ExportError(f"{classifier.base_.name} cannot be exported: PyTorch gave no graph")
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # the source location of each node, with paths of this machine
    program.model.metadata_props.update(metadata(classifier) | (_heat_map_metadata(classifier) if heat_map else {}))
    return program.model_proto.SerializeToString()


def metadata(classifier: ImageClassifier) -> dict[str, str]:
    """Return what a program needs to know in addition to the graph, as text; labels are JSON."""
    return {
        "classes": json.dumps(plain_labels(classifier.classes_), ensure_ascii=False),
        "image_size": str(classifier.learned_.size),
        "resizing": RESIZING,
        "threshold": repr(classifier.learned_.calibration.threshold(classifier.refuse)),
        "unknown": json.dumps(classifier.unknown, ensure_ascii=False),
        "base": classifier.base_.name,
        "producer": f"implanting {__version__}",
    }


def _heat_map_metadata(classifier: ImageClassifier) -> dict[str, str]:
    """What the numbers of the heat map are: they have no common scale, so a program must know."""
    return {"heat_map": "cosine" if classifier.learned_.head is None else "evidence"}


@contextmanager
def _tracing() -> Iterator[None]:
    """Silence torch's exporter (messages about optional packages and deprecated calls), and switch off shape checks,
    which would read the number of images and thereby fix it in the graph.
    """
    logger = logging.getLogger("torch.onnx")
    level, disabled = logger.level, jaxtyping.config.jaxtyping_disable
    logger.setLevel(logging.ERROR)
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # torch itself uses a deprecated name
            yield
    finally:
        logger.setLevel(level)
        jaxtyping.config.update("jaxtyping_disable", disabled)


@dataclass(frozen=True)
class Agreement:
    """The agreement of onnxruntime with the classifier on some images."""

    images: int
    same_labels: int
    largest_difference: float
    """The largest difference of a probability."""


def open_session(content: bytes) -> "onnxruntime.InferenceSession":
    """Prepare a graph to run, with as many threads as PyTorch uses."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def check(content: bytes, classifier: ImageClassifier, images: UInt8[Tensor, "image size size 3"]) -> Agreement:
    """Run images, all together and one alone, through both; raise an error if probabilities differ too much."""
    session = open_session(content)
    expected = classifier.predict_proba(images.numpy())
    found = run(session, images)
    alone = run(session, images[:1])
    difference = max(float(np.abs(found - expected).max()), float(np.abs(alone - expected[:1]).max()))
    same = int((found.argmax(1) == expected.argmax(1)).sum())
    if not difference <= TOLERANCE:
        raise ExportError(
            f"the exported graph is wrong: a probability differs by {difference:.1e} on {len(images)} images, at most "
            f"{TOLERANCE:.0e} is allowed; nothing was written, please report this with the versions of torch and onnx"
        )
    return Agreement(len(images), same, difference)


def run(session: "onnxruntime.InferenceSession", images: UInt8[Tensor, "image size size 3"]) -> Float[Any, "image way"]:
    """Return the probabilities that a graph gives."""
    return session.run([OUTPUTS[0]], {INPUT: images.numpy()})[0]


def sample_photos(size: int, count: int = 8) -> UInt8[Tensor, "image {size} {size} 3"]:
    """Crop pieces, at several scales, from the two photos that come with scikit-learn."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    photos = [Image.fromarray(photo) for photo in load_sample_images().images]
    pieces = []
    for number in range(count):
        photo, side = photos[number % 2], 400 - 40 * number
        left = 30 * number
        pieces.append(
            np.asarray(photo.resize((size, size), Image.Resampling.BILINEAR, (left, 5, left + side, 5 + side)))
        )
    return torch.from_numpy(np.stack(pieces))
