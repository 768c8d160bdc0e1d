"""Speed of stage 2 on cached activations, against the naive code and against a loop over tasks on the same cache."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from implanting.adapt import adapt
from implanting.bench.naive_adapt import adapt_one_task
from implanting.bench.timing import best_seconds
from implanting.config import ImplantConfig, NetworkConfig, PretrainConfig
from implanting.progress import Progress, silent
from implanting.randomness import Stream, generator_of
from implanting.tail import Sizes, Tail
from implanting.trained import build

WAY, SHOT = 5, 5


def compare(size: int, width: int, tasks: int, epochs: int, rounds: int, progress: Progress = silent) -> dict[str, Any]:
    """Seconds a task of each way, and ours as a share of the speed of a large matrix product."""
    config = ImplantConfig(implant_epochs=epochs)
    recipe = PretrainConfig(architecture=NetworkConfig(width=width), iterations=1)
    network = build(recipe, 2, (size, size))[0].eval().requires_grad_(False)
    labels = torch.arange(WAY).repeat_interleave(SHOT)
    images = torch.randn(len(labels), 3, size, size).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        maps, phi = network.activations(images)
    sizes = tuple((part.shape[2], part.shape[3]) for part in maps)
    cached = [part.flatten(2).transpose(1, 2).contiguous() for part in (*maps, phi)]

    def ours(together: int) -> Callable[[], None]:
        batch = [part.expand(together, *part.shape).contiguous() for part in cached]

        def run() -> None:
            for first in range(0, tasks, together):
                generators = [generator_of(0, Stream.IMPLANTS, first + number) for number in range(together)]
                adapt(batch[:-1], batch[-1], labels, network.tail, sizes, config, generators)

        return run

    square = torch.randn(2_000, 2_000)
    contestants = {
        "ours": ours(tasks),
        "one task at a time": ours(1),
        "naive": lambda: adapt_one_task(network, images, labels, config),
        "product": lambda: square @ square,
    }
    seconds = best_seconds(contestants, rounds, progress)
    peak = 2 * 2_000**3 / seconds["product"]
    per_task = {"ours": seconds["ours"] / tasks, "one task at a time": seconds["one task at a time"] / tasks}
    return {
        "size": size,
        "width": width,
        "ours": per_task["ours"],
        "over_naive": seconds["naive"] / per_task["ours"],
        "over_one_task": per_task["one task at a time"] / per_task["ours"],
        "share_of_peak": arithmetic(network.tail, sizes, labels, config) / per_task["ours"] / peak,
    }


def arithmetic(tail: Tail, sizes: Sizes, labels: Tensor, config: ImplantConfig) -> float:
    """Floating-point operations of adapting one task: each weight meets each location forward and backward.

    The few products between implants, batch norm and the loss are left out.
    """
    products = sum(
        layer.channels * layer.kernel**2 * config.implant_channels * math.prod(sizes[layer.reads])
        for layer in tail.layers
    )
    return 2.0 * 2 * products * len(labels) * config.implant_epochs
