"""Quality of "none of these" and of calibrated probabilities: tasks of five known and five unknown classes."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from sklearn.metrics import roc_auc_score
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.classifier import ImageClassifier
from implanting.config import TaskConfig
from implanting.datasets import ImageSet
from implanting.fewshot import UNKNOWN, Estimate, calibration_error, draw_tasks
from implanting.runtime import Progress, silent

KNOWN, QUERIES, REFUSE = 5, 15, 0.05

FROM_UNKNOWN = np.repeat([False, True], KNOWN * QUERIES)
"""Which queries of a task are of unknown classes: the second half."""


@dataclass(frozen=True)
class Answers:
    """The answers of a classifier of the known classes to all queries of a task."""

    scores: Float[np.ndarray, " query"]
    """Open-set scores: high for queries that resemble no class."""
    refused: Bool[np.ndarray, " query"]
    raw: Float[Tensor, "query way"]
    """Probabilities with the scale of the base network, not calibrated."""
    calibrated: Float[Tensor, "query way"]

    def figures(self) -> dict[str, float]:
        """AUROC of two scores that separate known from unknown queries, and the shares refused."""
        return {
            "score": roc_auc_score(FROM_UNKNOWN, self.scores),
            "max_probability": roc_auc_score(FROM_UNKNOWN, -self.raw.amax(1).numpy()),
            "refused": self.refused[~FROM_UNKNOWN].mean(),
            "unknown_refused": self.refused[FROM_UNKNOWN].mean(),
        }


def compare(
    base: BaseNetwork, image_set: ImageSet, shot: int, tasks: int, progress: Progress = silent
) -> dict[str, Any]:
    """AUROC of the open-set score and of the maximum probability; refusals; calibration error before and after."""
    drawn = draw_tasks(image_set, TaskConfig(2 * KNOWN, shot, QUERIES, tasks))
    pairs = progress(zip(drawn.support, drawn.query, strict=True), f"{shot}-shot tasks", tasks)
    answers = [answer(base, image_set, support[:KNOWN], query) for support, query in pairs]
    figures = [one.figures() for one in answers]
    known = torch.arange(KNOWN).repeat_interleave(QUERIES)

    def error(probabilities: list[Float[Tensor, "query way"]]) -> float:
        return calibration_error(torch.cat([part[: len(known)] for part in probabilities]), known.repeat(tasks))

    return {
        "shot": shot,
        "tasks": tasks,
        **{name: Estimate.of(np.array([one[name] for one in figures])) for name in figures[0]},
        "error_before": error([one.raw for one in answers]),
        "error_after": error([one.calibrated for one in answers]),
    }


def answer(
    base: BaseNetwork, image_set: ImageSet, support: Int[Tensor, "way shot"], query: Int[Tensor, "way_twice queries"]
) -> Answers:
    """Fit the known classes, then answer the queries of all classes, calibrated and not."""
    way, shot = support.shape
    classifier = ImageClassifier(base, device="cpu", unknown=-1, refuse=REFUSE)
    classifier.fit(image_set.images[support.flatten()].numpy(), np.arange(way).repeat(shot))
    images = image_set.images[query.flatten()].numpy()
    scores, calibrated = classifier.open_set_score(images), torch.from_numpy(classifier.predict_proba(images))
    refused = scores > classifier.learned_.calibration.threshold(REFUSE)
    classifier.learned_ = replace(classifier.learned_, calibration=UNKNOWN)
    return Answers(scores, refused, torch.from_numpy(classifier.predict_proba(images)), calibrated)
