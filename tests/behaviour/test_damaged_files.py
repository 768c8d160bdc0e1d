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
from implanting.classifier.files import digest
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


@pytest.fixture(scope="module")
def headed(base, tmp_path_factory) -> Path:
    """A classifier whose file has every tensor that there can be, except implants."""
    images = np.random.default_rng(0).integers(0, 256, (9, 16, 16, 3), dtype=np.uint8)
    classifier = ImageClassifier(base, implants=False, head="logistic", image_size=16, keep_supports=True)
    path = tmp_path_factory.mktemp("headed") / "a.safetensors"
    classifier.fit(images, list("aaabbbccc")).save(path)
    return path


TENSORS = [
    *("prototypes", "counts", "prints", "supports.images", "supports.labels"),
    *("head.class_weights", "head.bias", "head.centre", "head.spread"),
    *("readings.vectors", "readings.labels", "readings.numbers"),
    *("held_out.numbers", "held_out.labels", "held_out.probabilities"),
]
MUTATIONS = {
    "missing": lambda _: None,
    "shorter": lambda tensor: tensor[:-1],
    "longer": lambda tensor: torch.cat([tensor, tensor[:1]]),
    "empty": lambda tensor: tensor[:0],
    "narrower": lambda tensor: tensor[..., :-1],
    "of another rank": lambda tensor: tensor[None],
    "of one number": lambda tensor: tensor.flatten()[0].clone(),
    "of another type": lambda tensor: tensor.double() if tensor.is_floating_point() else tensor.to(torch.int32),
}


def with_tensor(source: Path, target: Path, name: str, mutate) -> Path:
    """A copy with one tensor changed, whose digest is right."""

    def change(document, tensors):
        if (mutated := mutate(tensors.pop(name))) is not None:
            tensors[name] = mutated.contiguous()
        document["digest"] = digest(tensors)

    return changed(source, target, change)


def refused(file: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match=rf"is damaged: .*do not fit \(.*{name.partition('.')[0]}") as error:
        ImageClassifier.load(file)
    assert "\n" not in str(error.value)
    assert "Error(" not in str(error.value)


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("name", TENSORS)
def test_every_tensor_of_a_classifier_is_checked(headed, tmp_path, name, mutation):
    assert set(TENSORS) == {each for each in load_file(headed) if not each.startswith("base.")}
    file = with_tensor(headed, tmp_path / "a.safetensors", name, MUTATIONS[mutation])
    if name == "prints" and mutation not in ("of another rank", "of one number", "of another type"):
        ImageClassifier.load(file)  # a set of any size, which may lack
    else:
        refused(file, name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("counts", 0),
        ("supports.labels", 3),
        ("readings.labels", -1),
        ("readings.labels", 3),
        ("readings.numbers", -1),
        ("held_out.labels", 2**40),
        ("held_out.numbers", -1),
        ("held_out.probabilities", 1.5),
        ("held_out.probabilities", -0.5),
    ],
)
def test_numbers_that_are_places_or_shares_are_within_range(headed, tmp_path, name, value):
    def mutate(tensor):
        tensor.view(-1)[0] = value
        return tensor

    refused(with_tensor(headed, tmp_path / "a.safetensors", name, mutate), name)


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("name", ["implants.0.base_weight", "implants.0.gamma", "implants.1.mean"])
def test_every_tensor_of_implants_is_checked(tmp_path, name, mutation):
    source = FIXTURES / "classifier-implants-0.1.0.safetensors"
    refused(with_tensor(source, tmp_path / "a.safetensors", name, MUTATIONS[mutation]), name)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["classify"].update(tau=10**400),
        lambda document: document["classify"].update(tau=1e300),
        lambda document: document["classify"].update(tau="ten"),
        lambda document: document["classify"].update(query_pooling="sum"),
        lambda document: document["calibration"].update(power=-(10**30)),
        lambda document: document["calibration"].update(known="abc"),
        lambda document: document["calibration"].update(told_by=3),
        lambda document: document.update(classes=[2**70, *document["classes"][1:]], dtype="<i8"),
        lambda document: document.update(dtype="nothing"),
    ],
)
def test_the_document_of_a_classifier_is_checked_as_a_whole(headed, tmp_path, change):
    file = changed(headed, tmp_path / "a.safetensors", lambda document, _: change(document))
    with pytest.raises(CheckpointError, match=r"a\.safetensors is damaged"):
        ImageClassifier.load(file)


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
