"""The times a user waits: fitting, predicting among many classes, adding a class, one prediction from a cold start."""

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from implanting.base import BaseNetwork, load_base
from implanting.bench import open_set
from implanting.bench.memory import resident_peak
from implanting.bench.noise import random_pixels
from implanting.bench.timing import Work, best_seconds
from implanting.classifier import ImageClassifier
from implanting.config import ClassifierConfig, ThreadsConfig
from implanting.console import print_table, show_progress
from implanting.datasets import read_dataset
from implanting.images import BATCH
from implanting.runtime import Progress, silent

# The same order as in `implanting predict`: torch first, and no garbage collection while modules are loaded.
COLD = """
import gc, sys, time; began = time.perf_counter()
gc.disable(); import torch; imported = time.perf_counter()
from implanting.cli.main import module_of; predict = module_of("predict"); ours = time.perf_counter()
classifier = predict.ImageClassifier.load(sys.argv[1]); loaded = time.perf_counter()
classifier.predict([sys.argv[2]]); predicted = time.perf_counter()
print(imported - began, ours - imported, loaded - ours, predicted - loaded)
"""

PARTS = ("importing torch", "importing implanting", "loading the classifier", "decoding and network")


def _images_of(base: BaseNetwork, count: int, seed: int = 0) -> np.ndarray:
    return random_pixels(count, min(base.preprocessing.image_size), seed).numpy()


def fitting(base: BaseNetwork, rounds: int, progress: Progress = silent) -> dict[str, float]:
    """Seconds to fit 5 classes of 5 decoded images, with implants and by prototypes, and to add a class."""
    images, labels = _images_of(base, 25), np.arange(5).repeat(5)
    new = _images_of(base, 5, seed=1)
    fitted = ImageClassifier(base, device="cpu", implants=False).fit(images, labels)

    def add() -> None:
        fitted.add_class(5, new)
        fitted.remove_class(5)

    contestants: dict[str, Work] = {
        "with implants": lambda: ImageClassifier(base, device="cpu", implants=True).fit(images, labels),
        "by prototypes": lambda: ImageClassifier(base, device="cpu", implants=False).fit(images, labels),
        "adding a class of 5": add,
    }
    return best_seconds(contestants, rounds, progress)


def _many_classes(base: BaseNetwork, classes: int, images: int, rounds: int, progress: Progress) -> dict[str, Any]:
    """Speed of predicting many images among many classes, compared with the bare network, and its memory."""
    sample = _images_of(base, 20 * BATCH)
    fitted = ImageClassifier(base, device="cpu", implants=False)
    began = time.perf_counter()
    fitted.fit(_images_of(base, 5 * classes), np.arange(classes).repeat(5))
    seconds_to_fit = time.perf_counter() - began
    tensor = torch.from_numpy(sample)

    def bare() -> None:
        for batch in tensor.split(BATCH):
            base.embed(batch)

    speeds = best_seconds({"network": bare, "predict": lambda: fitted.predict(sample)}, rounds, progress)
    before = resident_peak()
    repeated = [sample[number % len(sample)] for number in range(images)]
    began = time.perf_counter()
    fitted.predict(repeated, progress=progress)
    return {
        "classes": classes,
        "images": images,
        "fit_seconds": seconds_to_fit,
        "images_per_second": images / (time.perf_counter() - began),
        "share_of_network": speeds["network"] / speeds["predict"],
        "memory_growth": resident_peak() - before,
    }


def _cold_start(base: BaseNetwork, rounds: int) -> dict[str, float]:
    """Seconds of each part of predicting one image in a fresh process; the fastest of several runs."""
    with tempfile.TemporaryDirectory() as folder:
        file, image = Path(folder, "safetensors"), Path(folder, "image.png")
        ImageClassifier(base, device="cpu", implants=False).fit(_images_of(base, 10), np.arange(2).repeat(5)).save(file)
        Image.fromarray(_images_of(base, 1)[0]).save(image)
        runs = [_cold_run(file, image) for _ in range(rounds)]
    return min(runs, key=lambda run: run["all"])


def _cold_run(file: Path, image: Path) -> dict[str, float]:
    began = time.perf_counter()
    output = subprocess.run(  # noqa: S603 (our own command)
        [sys.executable, "-c", COLD, str(file), str(image)], check=True, capture_output=True, text=True
    ).stdout
    total = time.perf_counter() - began
    parts = dict(zip(PARTS, map(float, output.split()), strict=True))
    return {"interpreter": total - sum(parts.values())} | parts | {"all": total}


@dataclass(frozen=True)
class Classifier:
    """Times a user of FewShotClassifier waits; with --data also how well it says "none of these" and how well its
    probabilities are calibrated, on classes that the base has not seen.
    """

    base: str = ClassifierConfig.base
    """The base network: a name or a file."""
    data: Path | None = None
    """A data set whose classes are used as known and unknown ones."""
    split: str = "val"
    """The split of the data set."""
    shot: tuple[int, ...] = (1, 3, 5)
    """Images of each known class."""
    tasks: int = 40
    """Number of tasks, each of 5 known and 5 unknown classes."""
    classes: int = 1000
    """Number of classes, of 5 images each, among which many images are predicted."""
    images: int = 10_000
    """Number of images that are predicted among these classes."""
    rounds: int = 3
    """Timed turns of each contestant, after one to warm up."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Rows of open-set figures, if there is data, and the times."""
        base = load_base(self.base)
        base.require_features()
        once = {
            "fitting": fitting(base, self.rounds, show_progress),
            "many": _many_classes(base, self.classes, self.images, self.rounds, show_progress),
            "cold": _cold_start(base, self.rounds),
        }
        if self.data is None:
            return [], once
        side = min(base.preprocessing.image_size)
        image_set = read_dataset(self.data, self.split, image_size=side, progress=show_progress)
        return [open_set.compare(base, image_set, shot, self.tasks, show_progress) for shot in self.shot], once

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """Print the tables."""
        print_table(
            "5 classes of 5 images, decoded",
            ["", "seconds"],
            [[name, f"{seconds:.3f}"] for name, seconds in once["fitting"].items()],
            f"best of {self.rounds}; {torch.get_num_threads()} threads",
        )
        many = once["many"]
        print_table(
            f"{many['images']} images among {many['classes']} classes",
            ["", ""],
            [
                ["fitting", f"{many['fit_seconds']:.1f} s"],
                ["predicting", f"{many['images_per_second']:.0f} images/s"],
                ["share of the bare network's speed", f"{100 * many['share_of_network']:.0f} %"],
                ["growth of peak memory", f"{many['memory_growth'] / 2**20:.0f} MiB"],
            ],
        )
        print_table(
            "one image, from a cold start",
            ["", "seconds"],
            [[name, f"{seconds:.2f}"] for name, seconds in once["cold"].items()],
        )
        if rows:
            self.show_open_set(rows)

    def show_open_set(self, rows: list[dict[str, Any]]) -> None:
        """Print how well unknown classes are recognised, and the calibration errors."""
        print_table(
            "5 known and 5 unknown classes",
            ["", *(f"{row['shot']}-shot" for row in rows)],
            [
                ["AUROC of the open-set score", *(f"{row['score']}" for row in rows)],
                ["AUROC of maximum probability", *(f"{row['max_probability']}" for row in rows)],
                ["known images refused", *(f"{row['refused']}" for row in rows)],
                ["unknown images refused", *(f"{row['unknown_refused']}" for row in rows)],
                ["calibration error, raw", *(f"{100 * row['error_before']:.2f}" for row in rows)],
                ["calibration error, calibrated", *(f"{100 * row['error_after']:.2f}" for row in rows)],
            ],
            f"in %, {self.tasks} tasks, 15 queries per class, to refuse {100 * open_set.REFUSE:.0f} % of the known",
        )
