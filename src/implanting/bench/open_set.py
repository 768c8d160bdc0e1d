"""Answers of "none of these" and calibrated probabilities: five known classes, five unknown, many tasks."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from implanting.base import BaseNetwork
from implanting.calibration import UNKNOWN, calibration_error
from implanting.classifier import ImageClassifier
from implanting.config import TaskConfig
from implanting.datasets import ImageSet
from implanting.progress import Progress, silent
from implanting.results import Estimate
from implanting.tasks import draw_tasks

KNOWN, QUERIES, REFUSE = 5, 15, 0.05


def compare(
    base: BaseNetwork, image_set: ImageSet, shot: int, tasks: int, progress: Progress = silent
) -> dict[str, Any]:
    """AUROC of the open-set score and of plain maximum probability; calibration error before and after; refusals."""
    drawn = draw_tasks(image_set, TaskConfig(2 * KNOWN, shot, QUERIES, tasks))
    truth = np.repeat([0, 1], KNOWN * QUERIES)
    labels = torch.arange(KNOWN).repeat_interleave(QUERIES)
    figures: dict[str, list[float]] = {name: [] for name in ("score", "max_probability", "refused", "unknown_refused")}
    raw, calibrated = [], []
    for support, query in progress(zip(drawn.support, drawn.query, strict=True), f"{shot}-shot tasks", tasks):
        classifier = ImageClassifier(base, unknown=-1, refuse=REFUSE)
        classifier.fit(image_set.images[support[:KNOWN].flatten()].numpy(), np.arange(KNOWN).repeat(shot))
        images = image_set.images[query.flatten()].numpy()
        scores, sharpened = classifier.open_set_score(images), torch.from_numpy(classifier.predict_proba(images))
        refused = scores > classifier.learned_.calibration.threshold(REFUSE)
        classifier.learned_ = replace(classifier.learned_, calibration=UNKNOWN)
        plain = torch.from_numpy(classifier.predict_proba(images))
        figures["score"].append(roc_auc_score(truth, scores))
        figures["max_probability"].append(roc_auc_score(truth, -plain.amax(1).numpy()))
        figures["refused"].append(refused[truth == 0].mean())
        figures["unknown_refused"].append(refused[truth == 1].mean())
        raw.append(plain[: len(labels)])
        calibrated.append(sharpened[: len(labels)])
    everywhere = labels.repeat(tasks)
    return {
        "shot": shot,
        "tasks": tasks,
        **{name: Estimate.of(np.array(values)) for name, values in figures.items()},
        "error_before": calibration_error(torch.cat(raw), everywhere),
        "error_after": calibration_error(torch.cat(calibrated), everywhere),
    }
