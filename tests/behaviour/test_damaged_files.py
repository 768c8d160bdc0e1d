"""Files that claim what they do not hold: refused by name, before memory is taken and before any answer is given."""

import json
import resource
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from implanting.base import load_base
from implanting.classifier import ImageClassifier
from implanting.cli import main
from implanting.errors import CheckpointError

FIXTURES = Path(__file__).parents[1] / "fixtures"
BASE = FIXTURES / "base-0.1.0.safetensors"
CLASSIFIER = FIXTURES / "classifier-prototypes-0.1.0.safetensors"


def changed(source: Path, target: Path, change) -> Path:
    """A copy of a file with its document and tensors changed in place."""
    with safe_open(source, "pt") as file:
        document = json.loads(file.metadata()["implanting"])
    tensors = load_file(source)
    change(document, tensors)
    save_file(tensors, target, {"implanting": json.dumps(document)})
    return target


def spoil(tensors: dict[str, torch.Tensor], value: float) -> None:
    name = max(tensors, key=lambda name: tensors[name].numel() if tensors[name].is_floating_point() else 0)
    tensors[name].view(-1)[-1] = value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(("source", "load"), [(BASE, load_base), (CLASSIFIER, ImageClassifier.load)])
def test_one_number_that_is_none_is_refused(tmp_path, source, load, value):
    file = changed(source, tmp_path / "a.safetensors", lambda _, tensors: spoil(tensors, value))
    with pytest.raises(CheckpointError, match=r"a\.safetensors is damaged: .* not finite"):
        load(file)


def test_a_great_width_takes_no_memory(tmp_path):
    def widen(document, _tensors):
        document["config"]["architecture"]["width"] = 8192

    file = changed(BASE, tmp_path / "a.safetensors", widen)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError, match="tensors of its network do not fit its configuration"):
        load_base(file)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("config"),
        lambda document: document.update(image_size=[10**9, 10**9]),
        lambda document: document.update(image_size=[32]),
        lambda document: document.update(class_names="abc"),
        lambda document: document["normalisation"].update(std=[0, 0, 0]),
        lambda document: document["normalisation"].update(mean=[0, 0]),
        lambda document: document["training"].update(step=-1),
        lambda document: document["training"].update(step=10**6),
        lambda document: document["training"].update(validation=[{"step": 1}]),
        lambda document: document["config"].update(pooling="sum"),
        lambda document: document["config"].update(batch_size="many"),
        lambda document: document["config"].update(colour="red"),
        lambda document: document["config"].update(architecture=[]),
        lambda document: document.update(format=0),
        lambda document: document.update(format=True),
    ],
)
def test_a_description_is_checked_as_a_whole(tmp_path, change, capsys):
    file = changed(BASE, tmp_path / "a.safetensors", lambda document, _: change(document))
    assert main(["info", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "a.safetensors" in line


def test_nesting_is_bounded(tmp_path):
    save_file(load_file(BASE), tmp_path / "a.safetensors", {"implanting": '{"a":' * 50_000 + "1" + "}" * 50_000})
    with pytest.raises(CheckpointError, match="nested too deeply"):
        load_base(tmp_path / "a.safetensors")


def test_answers_are_of_the_old_or_the_new_classes_while_another_thread_changes_them(base):
    images = np.random.default_rng(0).integers(0, 256, (8, 16, 16, 3), dtype=np.uint8)
    classifier = ImageClassifier(base, implants=False, image_size=16).fit(images, list("aabbccdd"))
    stop, faults = threading.Event(), []

    def change() -> None:
        while not stop.is_set():
            classifier.remove_class("b")
            classifier.add_class("b", images[2:4])

    def ask() -> None:
        try:
            for _ in range(30):
                assert set(classifier.predict(images)) <= set("abcd")
                assert classifier.predict_proba(images).shape[1] in (3, 4)
                answers, _ = classifier.answers(images, top=4)
                assert {len(answer.ranking) for answer in answers} in ({3}, {4})
                assert all(answer.label == answer.ranking[0][0] for answer in answers)
        except BaseException as fault:
            faults.append(fault)

    changing, asking = threading.Thread(target=change), [threading.Thread(target=ask) for _ in range(2)]
    changing.start()
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    stop.set()
    changing.join()
    assert faults == []
