"""`implanting demo`: the whole method on real images, which come with scikit-learn."""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import torch

from implanting.base import BaseNetwork
from implanting.classifier import ImageClassifier
from implanting.cli.parsing import parse
from implanting.cli.training_display import TrainingDisplay
from implanting.cli.verbs.evaluate_report import accuracy_rows
from implanting.config import ImplantConfig, InferenceConfig, Pooling, PretrainConfig, RunConfig, TaskConfig
from implanting.console import print_json, print_table, say, show_progress
from implanting.datasets import BASE_DIGITS, NOVEL_DIGITS, ImageSet, read_digits
from implanting.evaluation import Approach, TaskImages, Trial, compare
from implanting.fewshot import Result, mean_of
from implanting.heatmap import picture_format
from implanting.pretraining import RECIPES, pretrain
from implanting.runtime import check_destination, choose_device, is_our_picture, set_threads

SHOTS = (1, 5, 10)
HEAT_MAP_SHOT = 5
GAP, DENSE, IMPLANTS = "global average pooling (GAP)", "dense classification (DC)", "dense classification + implants"
TRAINED: dict[Pooling, str] = {"gap": GAP, "dense": DENSE}


@dataclass(frozen=True)
class Demo:
    """Train a small ResNet-12 on five handwritten digits, and classify the five others from a few examples of each.

    One network is trained with global average pooling and one with dense classification; the second is also tested with
    implants, which are trained for each task. All are tested on the same tasks.
    """

    HELP_FROM: ClassVar[tuple[type, ...]] = (TaskConfig,)

    tasks: int = 300
    """Few-shot tasks per cell of the table."""
    queries: int = 15
    seed: int = 0
    """Fixes initial weights, order, augmentation and tasks."""
    heat_map: Path = Path("demo-heat-map.png")
    """File for a picture that shows where a digit resembles each of its three most probable classes."""
    overwrite: bool = False
    """Let --heat-map replace a picture that this project has not drawn."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: RunConfig = field(default_factory=RunConfig)


def main(arguments: Sequence[str]) -> int:
    """Train both networks, test them, and print the table."""
    command = parse(Demo, "demo", arguments)
    picture_format(command.heat_map)
    ending = command.heat_map.suffix.lower()
    check_destination(command.heat_map, "heat_map", ending, replaces=is_our_picture, overwrite=command.overwrite)
    set_threads(command.run.threads)
    began = time.monotonic()
    base_images, novel_images = read_digits(BASE_DIGITS, "base digits"), read_digits(NOVEL_DIGITS, "novel digits")
    say(f"base digits {BASE_DIGITS}: {len(base_images)} images; novel digits {NOVEL_DIGITS}: {len(novel_images)}")
    images, results = TaskImages(novel_images), dict[str, dict[int, Result]]()
    for pooling, title in TRAINED.items():
        say(f"stage 1 with {title}")
        config = dataclasses.replace(RECIPES["demo"].config, pooling=pooling, seed=command.seed)
        base = train(config, base_images, command.run)
        results[title] = _few_shot(command, base, images, SHOTS)
    say("stage 2: implants for each task")
    results[IMPLANTS] = _few_shot(command, base, images, SHOTS[1:], ImplantConfig())
    _draw_heat_map(base, novel_images, command)
    seconds = time.monotonic() - began
    if command.json:
        rows = [{**result.row(), "method": title} for title, cells in results.items() for result in cells.values()]
        print_json(dataclasses.asdict(command), seconds, rows)
    else:
        show(command, results, seconds)
        say("your own photos, on a page in the browser: implanting serve")
    return 0


def train(config: PretrainConfig, base_images: ImageSet, run: RunConfig) -> BaseNetwork:
    """Stage 1 with a progress display; nothing is saved."""
    with TrainingDisplay() as display:
        return pretrain(config, base_images, None, None, device=choose_device(run.device), observe=display)


def _few_shot(
    command: Demo, base: BaseNetwork, images: TaskImages, shots: Sequence[int], implants: ImplantConfig | None = None
) -> dict[int, Result]:
    """The results of one method per number of shots; all methods see the same tasks."""
    tasks = TaskConfig(queries=command.queries, tasks=command.tasks, seed=command.seed)
    approach = Approach(InferenceConfig(), implants)
    trials = [Trial(approach, dataclasses.replace(tasks, shot=shot)) for shot in shots]
    return {trial.tasks.shot: result for trial, result in compare(base, images, trials, progress=show_progress)}


def _draw_heat_map(base: BaseNetwork, novel_images: ImageSet, command: Demo) -> None:
    """Fit a classifier to five examples of each novel digit, and explain its answer for another digit."""
    indices = novel_images.indices_by_class()
    support = torch.cat([images[:HEAT_MAP_SHOT] for images in indices])
    labels = [novel_images.class_names[label] for label in novel_images.labels[support].tolist()]
    classifier = ImageClassifier(base, random_state=command.seed, device=command.run.device)
    classifier.fit(novel_images.images[support].numpy(), labels)
    digit = novel_images.images[indices[-1][HEAT_MAP_SHOT]].numpy()  # the first that is not an example
    classifier.explain(digit, top=3, finer=2).save(command.heat_map)
    say(f"where a {novel_images.class_names[-1]} looks like three digits: {command.heat_map}")


def show(command: Demo, results: dict[str, dict[int, Result]], seconds: float) -> None:
    """Print the table, with paired gains."""
    gains = {"gain of DC over GAP, paired": (DENSE, GAP), "gain of implants over DC, paired": (IMPLANTS, DENSE)}
    print_table(
        "5-way classification of novel digits",
        ["", *(f"{shot}-shot" for shot in SHOTS)],
        accuracy_rows(results, gains),
        f"accuracy in %, {mean_of(command.tasks)}; {seconds:.0f} s. Implants need two examples per class.",
    )
