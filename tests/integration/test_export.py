"""`implanting export` and the page on deployment, run as they stand."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import implanting
from implanting.classifier.estimator import FewShotClassifier
from implanting.cli import main
from implanting.config import NetworkConfig
from rounding import NEAR
from toys import coloured, toy_base

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"
IMAGES = coloured(classes=3, per_class=5, size=40)


@pytest.fixture
def photos(tmp_path: Path) -> list[str]:
    """Oblong pictures in the colours of the classes."""
    paths = []
    for number, image in enumerate(IMAGES.images[:4].numpy()):
        paths.append(str(tmp_path / f"photo-{number}.png"))
        Image.fromarray(np.concatenate([image, image[:9]])).save(paths[-1])
    return paths


def test_a_classifier_is_exported_and_used_as_the_page_says(tmp_path, photos, monkeypatch):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    base = toy_base(architecture=NetworkConfig("resnet12", 4), pooling="dense")
    classifier = FewShotClassifier(base, implants=True, implant_epochs=3, unknown="keines", refuse=0.1)
    classifier.fit(IMAGES.images.numpy(), np.array(["Eiche", "bøk", "松"])[IMAGES.labels.numpy()])
    classifier.save("trees.safetensors")
    export = next(line for line in PAGE.read_text().splitlines() if line.startswith("implanting export"))
    finished = implanting(sys.executable, "-W", "error", "-m", *export.split(), "--check", *photos, "--json")
    document = json.loads(finished.stdout.splitlines()[-1])
    assert finished.stderr == ""
    assert document["check"]["images"] == document["check"]["same_labels"] == 4
    assert document["check"]["largest_difference"] < NEAR / 3  # well within what would be refused
    program = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    forbidden = "import sys; sys.modules['torch'] = None\n"  # what the page promises not to need
    printed = implanting(sys.executable, "-W", "error", "-c", forbidden + program, *photos).stdout.splitlines()
    given = classifier.predict_proba(photos)
    expected = zip(photos, classifier.predict(photos), classifier.classes_[given.argmax(1)], given.max(1), strict=True)
    for line, (path, label, likeliest, probability) in zip(printed, expected, strict=True):
        found = re.fullmatch(r"(\S+) (\S+) \(most likely (\S+) ([\d.]+)\)", line)
        assert found is not None
        assert found.groups()[:3] == (path, label, likeliest)
        assert float(found[4]) == pytest.approx(probability, abs=2e-4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.safetensors"], "none.safetensors"),
        (["none.safetensors", "--onnx", "trees.pt"], "ends in .onnx"),
        (["none.safetensors", "--onnx", "nowhere/trees.onnx"], "there is no folder nowhere"),
        (["none.safetensors", "--html", "trees.onnx"], "ends in .html"),
    ],
)
def test_what_cannot_be_exported_is_said_in_one_line(tmp_path, monkeypatch, capsys, arguments, said):
    pytest.importorskip("onnxscript")
    monkeypatch.chdir(tmp_path)
    assert main(["export", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_without_the_extra_one_line_names_the_command(tmp_path):
    """The real command, where onnx cannot be imported."""
    hidden = (
        "import importlib.util as util, sys; real = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name.startswith('onnx') else real(name, *rest)\n"
        "from implanting.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    finished = implanting(sys.executable, "-c", hidden, "export", str(tmp_path / "trees.safetensors"), status=2)
    assert finished.stderr.strip().endswith("pip install onnx onnxscript onnxruntime")
    assert len(finished.stderr.strip().splitlines()) == 1
