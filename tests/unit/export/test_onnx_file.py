"""The exported graph, run by onnxruntime, against the classifier."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from implanting.classifier.estimator import FewShotClassifier
from implanting.config import NetworkConfig
from implanting.errors import ExportError, MissingExtra
from implanting.export import onnx_file
from implanting.fewshot import Calibration
from rounding import NEAR, assert_near
from toys import coloured, noise, toy_base

# Of the extra `export`, which the extra `dev` brings along: skipped only where someone chose to do without.
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

IMAGES = coloured(classes=3, per_class=4, size=32)
NAMES = np.array(["Eiche", "bøk", "松"])


def fitted(labels: np.ndarray, **settings) -> FewShotClassifier:
    base = toy_base(architecture=NetworkConfig("resnet12", 4), pooling="dense")
    classifier = FewShotClassifier(base, implant_channels=5, implant_epochs=3, **settings)
    classifier.fit(IMAGES.images.numpy(), labels)
    calibration = Calibration(1.7, (-0.9, -0.8, -0.7), "supports")
    classifier.learned_ = replace(classifier.learned_, calibration=calibration)
    return classifier


@pytest.fixture(scope="module")
def implanted() -> tuple[FewShotClassifier, bytes]:
    classifier = fitted(NAMES[IMAGES.labels.numpy()], implants=True, unknown="none of these", refuse=0.3)
    return classifier, onnx_file.onnx_bytes(classifier, heat_map=True)


@pytest.fixture(scope="module")
def plain() -> tuple[FewShotClassifier, bytes]:
    classifier = fitted(10 * IMAGES.labels.numpy(), implants=False)
    return classifier, onnx_file.onnx_bytes(classifier)


@pytest.mark.parametrize("which", ["implanted", "plain"])
@pytest.mark.parametrize("count", [1, 2, 13])
def test_any_number_of_images_gets_the_classifiers_answers(which, count, request):
    classifier, content = request.getfixturevalue(which)
    session = onnx_file.open_session(content)
    images = torch.cat([noise(2, 32, 32, 3), IMAGES.images])[:count]
    probabilities, scores = session.run(["probabilities", "open_set_score"], {"images": images.numpy()})
    assert_near(probabilities, classifier.predict_proba(images.numpy()), scale=1)
    assert_near(scores, classifier.open_set_score(images.numpy()))


def test_the_heat_map_is_an_output_where_it_is_asked_for(implanted, plain):
    classifier, content = implanted
    image = noise(1, 32, 32, 3)
    (maps,) = onnx_file.open_session(content).run(["heat_map"], {"images": image.numpy()})
    explained = classifier.explain(image[0].numpy(), "松")
    assert_near(maps[0, classifier.classes_.tolist().index("松")], explained.map[0], scale=1)
    assert [output.name for output in onnx_file.open_session(plain[1]).get_outputs()] == [
        "probabilities",
        "open_set_score",
    ]


def test_the_metadata_tells_all_that_a_program_needs(implanted, plain):
    about = onnx_file.open_session(implanted[1]).get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == ["Eiche", "bøk", "松"]
    assert about["image_size"] == "32"
    assert about["resizing"].startswith("shorter side to size")
    assert float(about["threshold"]) == pytest.approx(-0.72)  # the 2.8th of the three scores and the one to come
    assert json.loads(about["unknown"]) == "none of these"
    about = onnx_file.open_session(plain[1]).get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == [0, 10, 20]
    assert float(about["threshold"]) == np.inf
    assert json.loads(about["unknown"]) is None


@pytest.mark.parametrize(("head", "kind"), [("logistic", "evidence"), ("prototypes", "cosine")])
def test_the_metadata_tells_what_the_heat_map_shows(head, kind):
    classifier = fitted(NAMES[IMAGES.labels.numpy()], head=head, implants=False)
    session = onnx_file.open_session(onnx_file.onnx_bytes(classifier, heat_map=True))
    assert session.get_modelmeta().custom_metadata_map["heat_map"] == kind
    image = noise(1, 32, 32, 3)
    (maps,) = session.run(["heat_map"], {"images": image.numpy()})
    explained = classifier.explain(image[0].numpy(), "松", kind={"cosine": "similarity"}.get(kind, kind))
    assert_near(maps[0, classifier.classes_.tolist().index("松")], explained.map[0])


def test_a_graph_without_heat_map_tells_nothing_of_one(plain):
    assert "heat_map" not in onnx_file.open_session(plain[1]).get_modelmeta().custom_metadata_map


def test_the_graph_is_one_valid_file_that_tells_nothing_of_the_machine(implanted):
    model = onnx.load_from_string(implanted[1])
    onnx.checker.check_model(model, full_check=True)
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    assert __file__.rpartition("tests")[0].encode() not in implanted[1]
    assert b".py" not in implanted[1]


def test_the_check_reports_agreement_on_real_photos(implanted):
    classifier, content = implanted
    photos = onnx_file.sample_photos(32)
    assert len(np.unique(photos.numpy(), axis=0)) == 8
    agreement = onnx_file.check(content, classifier, photos)
    assert (agreement.images, agreement.same_labels) == (8, 8)
    assert agreement.largest_difference < NEAR / 3  # well within what `check` would refuse


def test_a_graph_that_computes_something_else_is_found_out(implanted):
    classifier, content = implanted
    model = onnx.load_from_string(content)
    bias = next(one for one in model.graph.initializer if len(one.dims) == 1 and one.dims[0] == 4)
    changed = onnx.numpy_helper.to_array(bias) + 1
    bias.CopyFrom(onnx.numpy_helper.from_array(changed, bias.name))
    with pytest.raises(ExportError, match="nothing was written"):
        onnx_file.check(model.SerializeToString(), classifier, onnx_file.sample_photos(32))


def test_without_the_extra_the_error_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    monkeypatch.setattr(onnx_file, "find_spec", lambda name: None if name == "onnxscript" else object())
    with pytest.raises(MissingExtra, match="pip install onnx onnxscript onnxruntime"):
        onnx_file.require_exporter()


def test_the_rule_of_the_example_is_the_classifiers_own(tmp_path):
    """`ImageOps.fit` of the example in docs/deploy.md, where no draft mode is at work."""
    from PIL import ImageOps

    from implanting.images import load

    photo = Image.fromarray(noise(61, 90, 3).numpy())
    photo.save(tmp_path / "photo.png")
    assert np.array_equal(
        np.asarray(ImageOps.fit(photo, (32, 32), Image.Resampling.BILINEAR)), load(tmp_path / "photo.png", 32)
    )
