"""Two networks side by side do all that one does, but for implants."""

import numpy as np
import pytest
import torch
from skimage import data

from implanting import FewShotClassifier, load_base
from implanting.errors import ConfigError
from implanting.export.module import ExportedClassifier

SIDE = 64


@pytest.fixture(scope="module")
def photos():
    return [photo[:SIDE, :SIDE] if small else photo for photo in (data.cat(), data.coffee()) for small in (0, 1)]


@pytest.fixture(scope="module")
def fitted(photos):
    classifier = FewShotClassifier("lite0+lite2", image_size=SIDE, unknown="none")
    return classifier.fit(photos, ["cat", "cat", "cup", "cup"])


def test_it_is_saved_whole_and_slim(fitted, photos, tmp_path):
    expected = fitted.predict_proba(photos)
    for slim, least, most in ((False, 43, 45), (True, 0, 0.5)):
        fitted.save(tmp_path / "file", slim=slim)
        assert least < (tmp_path / "file").stat().st_size / 1e6 < most
        loaded = FewShotClassifier.load(tmp_path / "file")
        np.testing.assert_allclose(loaded.predict_proba(photos), expected, atol=1e-5)
        assert loaded.base_.name == "lite0+lite2"


def test_it_explains_adds_and_removes(fitted, photos):
    explanation = fitted.explain(photos[0], top=2)
    assert explanation.map.shape[1:] == (2, 2)
    assert np.ptp(explanation.map) > 0
    changed = fitted.add_class("rocket", [data.rocket()])
    assert changed.predict([data.rocket()]).tolist() == ["rocket"]
    changed.remove_class("rocket")
    assert changed.classes_.tolist() == ["cat", "cup"]


def test_its_export_computes_the_same(fitted):
    images = torch.randint(0, 256, (3, SIDE, SIDE, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    probabilities = ExportedClassifier(fitted.learned_)(images)[0]
    np.testing.assert_allclose(probabilities.numpy(), fitted.predict_proba(images.numpy()), atol=1e-4)


def test_implants_are_refused_in_one_line(fitted, photos):
    classifier = FewShotClassifier(fitted.base_, image_size=SIDE, implants=True)
    with pytest.raises(ConfigError, match=r"which lite0\+lite2 has none of: set `implants` False") as refused:
        classifier.fit(photos, ["cat", "cat", "cup", "cup"])
    assert "\n" not in str(refused.value)


def test_its_summary_names_both_sizes():
    base = load_base("lite0+lite2")
    assert base.parameters == 3_371_008 + 4_811_072
    assert base.summary()["features"] == "2560 at 9 x 9 locations"
