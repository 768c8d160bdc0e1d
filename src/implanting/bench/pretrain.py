"""Training speed of stage 1 against the usual loop, and where its time goes."""

import dataclasses
import time
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from implanting.bench.noise import random_images
from implanting.bench.timing import best_seconds, on_one_thread
from implanting.bench.usual_loop import UsualLoop
from implanting.config import NetworkConfig
from implanting.datasets import ImageSet
from implanting.pretraining import RECIPES, Run, batch, prepare, train_step
from implanting.runtime import Progress, silent

IMAGES, CLASSES, SIZE = 2_048, 60, 32
"""The images that are trained on, and their side in pixels; classes as many as FC100 has."""

KINDS = {
    "convolutions": ("convolution", "conv2d"),
    "batch norm": ("batch_norm",),
    "swish": ("silu",),
    "pooling": ("max_pool",),
    "optimiser": ("sgd", "_foreach", "_fused"),
}
"""Parts of an operator's name by which the profile is added up."""

AUGMENTATION = "augmentation and normalisation"
KINDS_AND_OTHER = (*KINDS, AUGMENTATION, "other")


def start(width: int, images: ImageSet, batch_size: int) -> Run:
    """A run of the `cpu` recipe at another width."""
    recipe = RECIPES["cpu"].config
    config = dataclasses.replace(recipe, architecture=NetworkConfig(width=width), batch_size=batch_size)
    run = prepare(config, images, None, torch.device("cpu"))
    run.model.train()
    return run


def compare(width: int, batch_size: int, steps: int, rounds: int, progress: Progress = silent) -> dict[str, Any]:
    """Images a second of our step and of the usual loop, taking turns."""
    images = random_images(IMAGES, CLASSES, SIZE)
    run = start(width, images, batch_size)

    def ours() -> None:
        for _ in range(steps):
            train_step(run, run.model)

    seconds = best_seconds({"ours": ours, "usual": UsualLoop(run.config, images, steps)}, rounds, progress)
    speed = {name: steps * batch_size / value for name, value in seconds.items()}
    threads = torch.get_num_threads()
    by_threads = {f"{threads} threads": shares(run)} if threads > 1 else {}
    on_one_thread(lambda: by_threads.update({"1 thread": shares(run)}))()
    return {"width": width, **speed, "ratio": speed["ours"] / speed["usual"], "shares": by_threads}


def shares(run: Run, steps: int = 4) -> dict[str, float]:
    """Where the time of a step goes, by the profiler's own time of each operator."""
    began = time.perf_counter()
    for step in range(steps):
        run.description.normalisation(
            batch(run.images, run.config.augment, run.config.batch_size, run.config.seed, step)[0]
        )
    augmentation = time.perf_counter() - began
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        began = time.perf_counter()
        for _ in range(steps):
            train_step(run, run.model)
        total = time.perf_counter() - began
    spent = dict.fromkeys(KINDS, 0.0)
    for event in profiled.key_averages():
        for kind, names in KINDS.items():
            if any(name in event.key.lower() for name in names):
                spent[kind] += event.self_cpu_time_total / 1e6
                break
    result = {kind: seconds / total for kind, seconds in {**spent, AUGMENTATION: augmentation}.items()}
    return {**result, "other": 1 - sum(result.values())}
