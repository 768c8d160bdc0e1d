"""A classifier as one HTML file that classifies photos in the browser, offline, without a server.

The file contains the ONNX graph and ONNX Runtime Web (`browser/`, from npm), compressed and in base64. The browser
decodes photos, and the page resizes them as Pillow does, bit for bit. Its security policy allows no connection at all,
so that photos cannot leave the browser.
"""

import base64
import gzip
import hashlib
import html
import json
import math
from importlib.resources import files
from string import Template

from implanting.classifier import ImageClassifier, plain_labels
from implanting.images import DRAFT_MARGIN
from implanting.version import __version__

FILES = files("implanting.export") / "browser"

POLICY = (
    "default-src 'none'; script-src 'sha256-{script}' blob: 'wasm-unsafe-eval'; style-src 'sha256-{style}'; "
    "img-src blob:; base-uri 'none'; form-action 'none'"
)

MARK = '<meta name="generator" content="implanting'
"""The beginning of the line that identifies such a page."""


def page_bytes(classifier: ImageClassifier, graph: bytes, title: str) -> bytes:
    """Return the HTML file of a classifier and its ONNX graph, as `onnx_bytes` gives it."""
    style = _text("page.css")
    script = _text("resizing.js") + _text("page.js")
    page = Template(_text("page.html")).substitute(
        policy=POLICY.format(script=_hash(script), style=_hash(style)),
        mark=f'{MARK} {__version__}">',
        title=html.escape(title),
        style=style,
        script=script,
        facts=_facts(classifier),
        runtime=_encoded(gzip.compress(_text("ort.wasm.bundle.min.mjs").encode(), mtime=0)),
        machine=_encoded((FILES / "ort-wasm-simd-threaded.wasm.gz").read_bytes()),
        graph=_encoded(gzip.compress(graph, 1, mtime=0)),
    )
    return page.encode()


def _facts(classifier: ImageClassifier) -> str:
    """What the page must know in addition to the graph; "<" is escaped, so that no name can end the element."""
    threshold = classifier.learned_.calibration.threshold(classifier.refuse)
    refuses = classifier.unknown is not None and math.isfinite(threshold)
    facts = {
        "classes": [str(label) for label in plain_labels(classifier.classes_)],
        "image_size": classifier.learned_.size,
        "draft_size": DRAFT_MARGIN * classifier.learned_.size,
        "threshold": threshold if refuses else None,
        "unknown": None if classifier.unknown is None else str(classifier.unknown),
    }
    return json.dumps(facts, ensure_ascii=False).replace("<", "\\u003c")


def _text(name: str) -> str:
    return (FILES / name).read_text("utf-8")


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _hash(text: str) -> str:
    return _encoded(hashlib.sha256(text.encode()).digest())
