"""Our classifier compared with the obvious rivals, on the user's own photos: accuracy, calibration and time.

All methods get the same draws: some photos per class to learn from, others to test on. Ours is fitted and tested as a
user would do it, starting from pixels; photos that went through the network in an earlier draw are remembered. The
rivals read the pooled features of the same network, each of unit length.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
import tyro
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from implanting.base import BaseNetwork, load_base
from implanting.bench import rivals
from implanting.bench.remembering import RememberingBase
from implanting.classifier import ImageClassifier
from implanting.config import ClassifierConfig, TaskConfig, ThreadsConfig, require
from implanting.console import print_table, say, show_progress
from implanting.datasets import ImageSet
from implanting.errors import DataError
from implanting.fewshot import Estimate, Tasks, calibration_error, draw_tasks
from implanting.images import BATCH, decode_all, inspect_folder
from implanting.runtime import Progress, silent

OURS, RIVAL = "implanting", "logistic regression"

USUAL_IMAGES = (1, 2, 5, 10, 20)
"""Photos per class to learn from, as far as the classes have them."""

TIMED = 3
"""Draws on which the logistic regression is timed as it is usually written; the others are computed in less time."""

Probabilities = Float[Tensor, "query way"]
Labels = Int[Tensor, " support"]
Queries = Int[Tensor, " query"]


@dataclass(frozen=True)
class Answers:
    """The answers of one method to the photos of one draw, and its processor time without the network."""

    probabilities: Probabilities
    fit_seconds: float
    predict_seconds: float
    """Seconds for all photos together."""
    fit_passes: int
    """Number of images that the fit passes through the network: the photos, and other views of them."""
    predict_passes: int


@dataclass(frozen=True)
class Photographs:
    """The photos from which draws are made, and their features."""

    images: UInt8[Tensor, "image size size 3"]
    features: Float[Tensor, "image dim"]
    """Pooled features of unit length."""
    base: RememberingBase
    embed_seconds: float
    """Processor time of the network for one image."""


def possible_images(asked: Sequence[int] | None, fewest: int, name: str) -> tuple[int, ...]:
    """The numbers of photos per class that leave one to test on; `name` is the class that has the fewest."""
    if asked is not None:
        for number in asked:
            require(number >= 1, "images", number, "1 or more")
        if max(asked) >= fewest:
            raise DataError(
                f"class '{name}' has {fewest} photo{'s' * (fewest != 1)}; `images` {max(asked)} needs one more to test "
                f"on: ask for {max(fewest - 1, 1)} or fewer, or add photos"
            )
        return tuple(asked)
    possible = tuple(number for number in USUAL_IMAGES if number < fewest)
    if not possible:
        raise DataError(
            f"class '{name}' has {fewest} photo; one to learn from and one to test on are needed: add photos, or "
            "remove its folder"
        )
    return possible


def embedded(base: BaseNetwork, images: UInt8[Tensor, "image size size 3"], progress: Progress = silent) -> Photographs:
    """Pass all photos through the network once, and time it."""
    remembering = RememberingBase(base)
    _ = remembering.quick  # made before the clock runs
    began, pooled = time.process_time(), []
    batches = images.split(BATCH)
    for batch in progress(batches, "embedding", len(batches)):
        pooled.append(remembering.embed(batch).mean(1))
    seconds = (time.process_time() - began) / len(images)
    return Photographs(images, F.normalize(torch.cat(pooled), dim=1), remembering, seconds)


def ours(photos: Photographs, support: Labels, labels: Labels, query: Queries) -> Answers:
    """Fit and predict as a user does; the time of the network is subtracted, and its images are counted."""
    base = photos.base
    classifier = ImageClassifier(base, device="cpu")
    fit_seconds, fit_passes = _without_network(
        base, lambda: classifier.fit(photos.images[support].numpy(), labels.numpy())
    )
    given: list[np.ndarray] = []
    asked = photos.images[query].numpy()
    predict_seconds, predict_passes = _without_network(base, lambda: given.append(classifier.predict_proba(asked)))
    return Answers(torch.from_numpy(given[0]), fit_seconds, predict_seconds, fit_passes, predict_passes)


def _without_network(base: RememberingBase, work: Callable[[], object]) -> tuple[float, int]:
    """Processor time of the work outside the network, and the images that it asked the network for."""
    inside, asked, began = base.seconds, base.asked, time.process_time()
    work()
    return max(0.0, time.process_time() - began - (base.seconds - inside)), base.asked - asked


def rival(
    fit: Callable[[Tensor, Tensor], rivals.Predict],
    photos: Photographs,
    support: Labels,
    labels: Labels,
    query: Queries,
) -> Answers:
    """Fit and ask on the features."""
    features, asked = photos.features[support], photos.features[query]
    began = time.process_time()
    predict = fit(features, labels)
    fitted = time.process_time()
    probabilities = predict(asked)
    return Answers(probabilities, fitted - began, time.process_time() - fitted, len(support), len(query))


def compare(photos: Photographs, tasks: Tasks, progress: Progress = silent) -> list[dict[str, Any]]:
    """A row for each method."""
    _, way, shot = tasks.support.shape
    queries = tasks.query.shape[2]
    labels, truth = (torch.arange(way).repeat_interleave(count) for count in (shot, queries))
    fits = {
        RIVAL: rivals.in_their_span,
        "nearest neighbour": rivals.nearest_neighbour,
        "prototypes": rivals.prototypes(photos.base.tau),
    }
    answers: dict[str, list[Answers]] = {name: [] for name in (OURS, *fits)}
    usual: list[Answers] = []
    pairs = zip(tasks.support.flatten(1), tasks.query.flatten(1), strict=True)
    for number, (support, query) in enumerate(progress(pairs, f"{shot} per class", len(tasks))):
        answers[OURS].append(ours(photos, support, labels, query))
        for name, fit in fits.items():
            answers[name].append(rival(fit, photos, support, labels, query))
        if number < TIMED:
            usual.append(rival(rivals.logistic_regression, photos, support, labels, query))
    right = {name: _accuracies(given, truth) for name, given in answers.items()}
    timed = answers | {RIVAL: usual}
    return [
        {
            "method": name,
            "way": way,
            "shot": shot,
            **_estimate("mean", Estimate.of(right[name])),
            **_estimate("gain", Estimate.of(right[name] - right[RIVAL])),
            "tasks": len(tasks),
            "calibration_error": calibration_error(
                torch.cat([one.probabilities for one in given]), truth.repeat(len(tasks))
            ),
            **_seconds(timed[name], photos.embed_seconds, len(truth)),
        }
        for name, given in answers.items()
    ]


def _accuracies(given: Sequence[Answers], truth: Queries) -> Float[np.ndarray, " draw"]:
    return np.array([(one.probabilities.argmax(1) == truth).double().mean().item() for one in given])


def _estimate(name: str, estimate: Estimate) -> dict[str, float | None]:
    interval = "interval" if name == "mean" else f"{name}_interval"
    return {name: estimate.mean, interval: estimate.known_interval}


def _seconds(given: Sequence[Answers], embedding: float, queries: int) -> dict[str, float]:
    """The network counted for every image that goes through it, known or not; of the rest the median over draws."""
    fit = statistics.median(one.fit_seconds + embedding * one.fit_passes for one in given)
    predict = statistics.median(one.predict_seconds + embedding * one.predict_passes for one in given)
    return {"fit_seconds": fit, "predict_seconds": predict / queries}


@dataclass(frozen=True)
class Photos:
    """Which classifier for your photos? A folder with one sub-folder per class is drawn from many times: some photos
    of each class to learn from, others to be asked about. Printed are how often `implanting`, logistic regression,
    nearest neighbour and prototypes are right, all on the same draws and the same base network; how far their
    probabilities are from the truth; and the seconds that each needs.

    A draw is one small classifier, as you would make one. The interval says how far the mean of other draws from the
    same photos may lie. The row "over logistic regression" is the mean of the differences draw by draw, whose interval
    is smaller.
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """A folder with one sub-folder per class."""
    base: str = ClassifierConfig.base
    """The base network: efficientnet-lite0, efficientnet-lite2, lite0+lite2, fc100, miniimagenet, or a file."""
    way: int | None = None
    """Classes of a draw; default: 10, or all where there are fewer."""
    images: tuple[int, ...] | None = None
    """Photos per class to learn from; default: 1 2 5 10 20, as far as the smallest class has one more to test on."""
    queries: int = 15
    """Photos per class to be asked about; fewer where a class has no more."""
    draws: int = 50
    """Draws for each number of photos; the interval shrinks with the root of it."""
    seed: int = 0
    """Fixes the draws."""
    skip_bad: bool = False
    """Leave out images that do not decode, and say which."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Rows for each number of photos and method; what holds for all of them."""
        require(self.queries >= 1, "queries", self.queries, "1 or more")
        require(self.draws >= 1, "draws", self.draws, "1 or more")
        found = inspect_folder(self.folder, skip_bad=self.skip_bad, progress=show_progress)
        for remark in found.remarks():
            say(f"{self.folder}: {remark}")
        names = tuple(sorted(set(found.labels)))
        labels = torch.tensor([names.index(label) for label in found.labels])
        counts = labels.bincount()
        images = possible_images(self.images, int(counts.min()), names[int(counts.argmin())])
        way = self._way(len(names))
        base = load_base(self.base)
        drawn = [self._draw(labels, names, way, number) for number in images]
        used = torch.cat([part.flatten() for tasks in drawn for part in (tasks.support, tasks.query)]).unique()
        pixels, _ = decode_all(
            [found.paths[place] for place in used.tolist()], min(base.preprocessing.image_size), show_progress
        )
        photos = embedded(base, pixels, show_progress)
        rows = [row for tasks in drawn for row in compare(photos, _renumbered(tasks, used), show_progress)]
        facts = {"classes": len(names), "photos": len(used), "embed_seconds": photos.embed_seconds}
        return rows, {"facts": facts}

    def _way(self, classes: int) -> int:
        if self.way is None:
            if classes < 2:
                raise DataError(f"{self.folder} has one class; two or more are needed: add a folder for another class")
            return min(10, classes)
        require(self.way >= 2, "way", self.way, "2 or more")
        if self.way > classes:
            raise DataError(
                f"{self.folder} has {classes} class{'es' * (classes != 1)}; `way` {self.way} needs as many: lower it "
                "or add folders"
            )
        return self.way

    def _draw(self, labels: Int[Tensor, " photo"], names: tuple[str, ...], way: int, images: int) -> Tasks:
        """Which photos, before any is decoded."""
        places = ImageSet(torch.zeros(len(labels), 1, 1, 3, dtype=torch.uint8), labels, names, self.folder.name, "none")
        queries = min(self.queries, places.smallest_class - images)
        return draw_tasks(places, TaskConfig(way, images, queries, self.draws, self.seed))

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """The tables."""
        facts, shots = once["facts"], list(dict.fromkeys(row["shot"] for row in rows))
        methods = list(dict.fromkeys(row["method"] for row in rows))
        cells = {(row["method"], row["shot"]): row for row in rows}
        columns = ["photos per class", *map(str, shots)]
        way, draws = rows[0]["way"], rows[0]["tasks"]
        accuracies = [[name, *(str(_of(cells[name, shot], "mean")) for shot in shots)] for name in methods]
        gains = [_of(cells[OURS, shot], "gain").signed() for shot in shots]
        print_table(
            f"{self.folder.name}, {way}-way, {self.base}: right answers in %",
            columns,
            [*accuracies, [f"{OURS} over {RIVAL}", *gains]],
            f"mean of {draws} draws ± 95 % interval over the draws; {facts['photos']} photos drawn from "
            f"{facts['classes']} classes, at most {self.queries} per class asked about; "
            "the last row is paired, draw by draw",
        )
        print_table(
            "calibration error in %",
            columns,
            [[name, *(f"{100 * cells[name, shot]['calibration_error']:.1f}" for shot in shots)] for name in methods],
            f"how far probabilities are from the share of right answers, over {draws} draws together; 15 bins",
        )
        print_table(
            "processor seconds to fit; milliseconds to classify one photo",
            columns,
            [[name, *(_times(cells[name, shot]) for shot in shots)] for name in methods],
            f"of decoded photos; the network takes {1000 * facts['embed_seconds']:.1f} ms per image (mean of "
            f"{facts['photos']}), counted for all alike; the rest is the median of {draws} draws ({RIVAL}: of "
            f"{min(TIMED, draws)})",
        )


def _renumbered(tasks: Tasks, used: Int[Tensor, " used"]) -> Tasks:
    """The same tasks, by places among the photos that are used."""
    support, query = (torch.searchsorted(used, part.contiguous()) for part in (tasks.support, tasks.query))
    return Tasks(tasks.images, tasks.numbers, tasks.classes, support, query)


def _of(row: dict[str, Any], name: str) -> Estimate:
    interval = row["interval" if name == "mean" else f"{name}_interval"]
    return Estimate(row[name], float("nan") if interval is None else interval, row["tasks"])


def _times(row: dict[str, Any]) -> str:
    return f"{row['fit_seconds']:.2f}; {1000 * row['predict_seconds']:.1f}"
