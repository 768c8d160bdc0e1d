"""The file of the stand-alone page: complete, with nothing from elsewhere, and safe from names."""

import base64
import gzip
import hashlib
import json
import re

import numpy as np
import pytest

from implanting.classifier import ImageClassifier
from implanting.export.web_page import page_bytes
from toys import coloured, toy_base

IMAGES = coloured(classes=3, per_class=5, size=32)
NAMES = np.array(["</script><script>alert(1)</script>", "b", "ü"])


@pytest.fixture(scope="module")
def page() -> str:
    classifier = ImageClassifier(toy_base(), unknown="none of these")
    classifier.fit(IMAGES.images.numpy(), NAMES[IMAGES.labels.numpy()])
    return page_bytes(classifier, b"graph", "A <title> & more").decode()


def element(page: str, name: str) -> str:
    return re.search(rf'id="{name}">([^<]*)</script>', page)[1]


def test_the_parts_come_out_as_they_went_in(page: str) -> None:
    assert gzip.decompress(base64.b64decode(element(page, "graph"))) == b"graph"
    assert gzip.decompress(base64.b64decode(element(page, "machine")))[:4] == b"\0asm"
    assert b"ONNX Runtime Web v1.30.0" in gzip.decompress(base64.b64decode(element(page, "runtime")))[:100]
    facts = json.loads(element(page, "facts"))
    assert facts["classes"] == sorted(NAMES)
    assert facts["image_size"] == 32
    assert facts["unknown"] == "none of these"


def test_names_cannot_become_markup(page: str) -> None:
    assert page.count("<script") == page.count("</script>") == 5
    assert "<h1>A &lt;title&gt; &amp; more</h1>" in page


def test_the_policy_allows_this_script_and_no_connection(page: str) -> None:
    policy = re.search(r'Policy" content="([^"]*)"', page)[1]
    script = re.search(r'<script type="module">(.*)</script>', page, re.DOTALL)[1]
    assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
