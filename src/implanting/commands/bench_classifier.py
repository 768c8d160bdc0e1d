"""`implanting bench classifier`: what a user of a classifier waits for, and how well it says "none of these"."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from implanting.base import load_base
from implanting.bench import classifier, open_set
from implanting.config import ClassifierConfig, ThreadsConfig
from implanting.console import print_table, show_progress
from implanting.datasets import read_dataset


@dataclass(frozen=True)
class Classifier:
    """What a user of FewShotClassifier waits for; and, with --data, how well it says "none of these" and how honest
    its probabilities are, on classes that the base has not seen.
    """

    base: str = ClassifierConfig.base
    """The base network: a name or a file."""
    data: Path | None = None
    """A data set whose classes serve as known and unknown ones."""
    split: str = "val"
    """Which of its classes."""
    shot: tuple[int, ...] = (1, 3, 5)
    """Images of each known class."""
    tasks: int = 40
    """Tasks of 5 known and 5 unknown classes."""
    classes: int = 1000
    """Classes of 5 images among which many images are predicted."""
    images: int = 10_000
    """Images that are predicted among them."""
    rounds: int = 3
    """Turns of each contestant, after one to warm up."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Rows of open-set figures, and the times."""
        base = load_base(self.base)
        once = {
            "fitting": classifier.fitting(base, self.rounds, show_progress),
            "many": classifier.many_classes(base, self.classes, self.images, self.rounds, show_progress),
            "cold": classifier.cold_start(base, self.rounds),
        }
        if self.data is None:
            return [], once
        image_set = read_dataset(self.data, self.split, image_size=min(base.image_size), progress=show_progress)
        return [open_set.compare(base, image_set, shot, self.tasks, show_progress) for shot in self.shot], once

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """The tables."""
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
            "one image, from cold",
            ["", "seconds"],
            [[name, f"{seconds:.2f}"] for name, seconds in once["cold"].items()],
        )
        if rows:
            self.show_open_set(rows)

    def show_open_set(self, rows: list[dict[str, Any]]) -> None:
        """Known against unknown classes."""
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
            f"in %, {self.tasks} tasks, 15 queries a class, asked to refuse {100 * open_set.REFUSE:.0f} % of the known",
        )
