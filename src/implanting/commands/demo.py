"""`implanting demo`: the whole method on real images that come with a dependency."""

import dataclasses
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from implanting.base import BaseNetwork
from implanting.commands.parsing import parse
from implanting.config import Pooling, PretrainConfig, RunConfig
from implanting.console import TrainingDisplay, print_json, print_table, result_row, say
from implanting.datasets import ImageSet
from implanting.digits import BASE_DIGITS, NOVEL_DIGITS, read_digits
from implanting.distributed import choose_device
from implanting.evaluation import Result, evaluate
from implanting.pretraining import pretrain
from implanting.recipes import RECIPES

SHOTS = (1, 5, 10)
ARMS: dict[Pooling, str] = {"gap": "global average pooling (GAP)", "dense": "dense classification (DC)"}


@dataclass(frozen=True)
class Demo:
    """Train a small ResNet-12 on five handwritten digits, and tell five others apart from a few examples of each.

    Once with global average pooling and once with dense classification, tested on the same tasks.
    """

    tasks: int = 1_000
    """Few-shot tasks a cell of the table."""
    queries: int = 15
    """Query images of each class."""
    seed: int = 0
    """Fixes initial weights, order, augmentation and tasks."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: RunConfig = field(default_factory=RunConfig)


def main(arguments: Sequence[str]) -> int:
    """Train both networks, test them, and print the table."""
    command = parse(Demo, "demo", arguments)
    if command.run.threads:
        torch.set_num_threads(command.run.threads)
    began = time.monotonic()
    base_images, novel_images = read_digits(BASE_DIGITS, "base digits"), read_digits(NOVEL_DIGITS, "novel digits")
    say(f"base digits {BASE_DIGITS}: {len(base_images)} images; novel digits {NOVEL_DIGITS}: {len(novel_images)}")
    results = {}
    for pooling, title in ARMS.items():
        say(f"stage 1 with {title}")
        config = dataclasses.replace(RECIPES["demo"].config, pooling=pooling, seed=command.seed)
        base = train(config, base_images, command.run)
        results[pooling] = [
            evaluate(base, novel_images, shot=shot, queries=command.queries, tasks=command.tasks, seed=command.seed)
            for shot in SHOTS
        ]
    seconds = time.monotonic() - began
    if command.json:
        rows = [result_row(result, ARMS[pooling]) for pooling in ARMS for result in results[pooling]]
        print_json(dataclasses.asdict(command), seconds, rows)
    else:
        show(command, results, seconds)
    return 0


def train(config: PretrainConfig, base_images: ImageSet, run: RunConfig) -> BaseNetwork:
    """Stage 1 with a display, its checkpoint thrown away."""
    with tempfile.TemporaryDirectory() as folder, TrainingDisplay() as display:
        out = Path(folder) / "base.safetensors"
        return pretrain(config, base_images, None, out, device=choose_device(run.device), observe=display)


def show(command: Demo, results: dict[Any, list[Result]], seconds: float) -> None:
    """The table, with the paired gain of dense classification."""
    rows = [[ARMS[pooling], *(str(result.estimate) for result in results[pooling])] for pooling in ARMS]
    gains = [dense.gain_over(gap) for dense, gap in zip(results["dense"], results["gap"], strict=True)]
    rows.append(
        ["gain of DC over GAP, paired", *(f"{100 * gain.mean:+.2f} ± {100 * gain.interval:.2f}" for gain in gains)]
    )
    print_table(
        "5-way classification of novel digits",
        ["stage 1", *(f"{shot}-shot" for shot in SHOTS)],
        rows,
        f"accuracy in %, mean of {command.tasks} tasks ± 95 % interval over the sampling of tasks; {seconds:.0f} s",
    )
