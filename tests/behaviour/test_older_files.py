"""Files that version 0.1.0 wrote load, and answer as they did then."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from implanting import FewShotClassifier, load_base
from toy_classifier import ASKED, IMAGES

FIXTURES = Path(__file__).parents[1] / "fixtures"
ANSWERS = json.loads((FIXTURES / "answers-0.1.0.json").read_text())

ROUNDING = 1e-4
"""Other processors add in another order; a wrong weight or a lost layer moves these numbers by far more."""


def test_a_base_network() -> None:
    base = load_base(FIXTURES / "base-0.1.0.safetensors")
    assert base.fingerprint == ANSWERS["fingerprint"]
    assert base.tau == ANSWERS["tau"]
    found = base.embed(torch.from_numpy(IMAGES[:2])).mean(1)
    torch.testing.assert_close(found, torch.tensor(ANSWERS["embed"]), atol=ROUNDING, rtol=ROUNDING)


@pytest.mark.filterwarnings("ignore::implanting.errors.CannotRefuse")  # sixteen images are too few for that
@pytest.mark.parametrize("kind", ["implants", "prototypes"])
def test_a_classifier(kind: str) -> None:
    classifier, told = FewShotClassifier.load(FIXTURES / f"classifier-{kind}-0.1.0.safetensors"), ANSWERS[kind]
    assert classifier.classes_.tolist() == told["classes"]
    assert classifier.predict(IMAGES[ASKED]).tolist() == told["answers"]
    np.testing.assert_allclose(classifier.predict_proba(IMAGES[ASKED]), told["probabilities"], atol=10 * ROUNDING)
    np.testing.assert_allclose(classifier.open_set_score(IMAGES[ASKED]), told["open_set"], atol=ROUNDING)
