import pytest
import torch

from implanting.config import InferenceConfig
from implanting.dense_classification import PrototypeClassifier, prototype_classifier
from implanting.pretraining import pretrain
from implanting.pretraining.validation import one_shot_calibration
from rounding import NEAR
from toys import coloured, seeded, tiny_config


def test_a_finished_run_knows_how_sure_it_may_be(tmp_path):
    base_images, validation = coloured(classes=3), coloured(classes=3, per_class=20, seed=1, prefix="shade")
    base = pretrain(
        tiny_config(validation_tasks=5), base_images, validation, tmp_path / "base.safetensors", device="cpu"
    )
    stored = base.description.training.calibration
    phi = base.embed(validation.images)
    classify = prototype_classifier("dense", base.tau, InferenceConfig())
    again = one_shot_calibration(phi, validation, classify)  # by folded batch norm: equal but for rounding
    assert stored["power"] == pytest.approx(
        again.power, rel=0.06
    )  # where two fit as well, the next power may be chosen
    assert stored["known"] == pytest.approx(again.known, abs=NEAR)
    assert stored["told_by"] == "base"
    assert len(stored["known"]) == 101


def test_features_that_tell_classes_apart_allow_surer_answers_than_noise():
    images = coloured(classes=5, per_class=12)
    classify = PrototypeClassifier("gap", "dense", 10.0)
    centres, noise = (torch.randn(count, 1, 6, generator=seeded(count)) for count in (5, 60))
    clear = one_shot_calibration(centres[images.labels] + 0.1 * noise, images, classify)
    unclear = one_shot_calibration(0.1 * centres[images.labels] + noise, images, classify)
    assert clear.power > 1 > unclear.power
    assert clear.threshold(0.05) < unclear.threshold(0.05)
