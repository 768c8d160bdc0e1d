import pytest
import torch

from implanting.base import BaseNetwork
from implanting.bench import photos
from implanting.bench.photos import OURS, RIVAL, Photos, compare, embedded, possible_images
from implanting.classifier import ImageClassifier
from implanting.config import TaskConfig
from implanting.errors import ConfigError, DataError
from implanting.fewshot import calibration_error, draw_tasks
from toys import coloured

KNOWN = coloured(classes=4, per_class=9, size=32)


def test_numbers_of_photos_that_leave_one_to_test_on():
    assert possible_images(None, 11, "oak") == (1, 2, 5, 10)
    assert possible_images((3, 8), 9, "oak") == (3, 8)
    with pytest.raises(DataError, match=r"class 'oak' has 9 photos; `images` 9 needs one more.*ask for 8 or fewer"):
        possible_images((1, 9), 9, "oak")
    with pytest.raises(DataError, match="class 'oak' has 1 photo; one to learn from and one to test on"):
        possible_images(None, 1, "oak")
    with pytest.raises(ConfigError, match="`images` is 0"):
        possible_images((0,), 9, "oak")


def test_ours_is_what_a_user_would_get(base: BaseNetwork):
    tasks = draw_tasks(KNOWN, TaskConfig(3, 2, 4, tasks=3))
    rows = {row["method"]: row for row in compare(embedded(base, KNOWN.images), tasks)}
    right, given, truth = [], [], torch.arange(3).repeat_interleave(4)
    for support, query in zip(tasks.support.flatten(1), tasks.query.flatten(1), strict=True):
        labels = torch.arange(3).repeat_interleave(2)
        classifier = ImageClassifier(base, device="cpu").fit(KNOWN.images[support].numpy(), labels.numpy())
        given.append(torch.from_numpy(classifier.predict_proba(KNOWN.images[query].numpy())))
        right.append((given[-1].argmax(1) == truth).double().mean().item())
    assert rows[OURS]["mean"] == pytest.approx(sum(right) / 3)
    assert rows[OURS]["calibration_error"] == pytest.approx(
        calibration_error(torch.cat(given), truth.repeat(3)), abs=1e-4
    )
    assert rows[OURS]["gain"] == pytest.approx(rows[OURS]["mean"] - rows[RIVAL]["mean"])
    assert (rows[RIVAL]["gain"], rows[RIVAL]["gain_interval"]) == (0, 0)


def test_the_network_is_counted_for_every_image_of_every_method(base: BaseNetwork, monkeypatch):
    tasks = draw_tasks(KNOWN, TaskConfig(2, 3, 4, tasks=2))
    known = embedded(base, KNOWN.images)
    slow = photos.Photographs(known.images, known.features, known.base, embed_seconds=100.0)
    for row in compare(slow, tasks):
        assert row["fit_seconds"] == pytest.approx(100 * 6, rel=0.1)
        assert row["predict_seconds"] == pytest.approx(100, rel=0.1)


def test_too_few_classes_are_told(tmp_path):
    assert Photos(tmp_path)._way(25) == 10
    assert Photos(tmp_path)._way(4) == 4
    with pytest.raises(DataError, match=r"has 4 classes; `way` 5 needs as many: lower it or add folders"):
        Photos(tmp_path, way=5)._way(4)
    with pytest.raises(DataError, match="has one class; two or more"):
        Photos(tmp_path)._way(1)
    with pytest.raises(ConfigError, match="`way` is 1"):
        Photos(tmp_path, way=1)._way(4)
