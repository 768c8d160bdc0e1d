"""Speed of stage 2 on cached activations, compared with naive code and with a loop over tasks on the same cache."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from implanting.bench import memory
from implanting.bench.naive_adapt import adapt_one_task, implants_of
from implanting.bench.noise import fresh_network
from implanting.bench.timing import FACTOR, MATRIX, Work, best_seconds, growth, on_one_thread, show_growth
from implanting.config import ImplantConfig, NetworkConfig, ThreadsConfig
from implanting.console import print_table, say, show_progress
from implanting.dense_classification import PrototypeClassifier
from implanting.implants import Fitting, Supports
from implanting.networks import Network, Sizes, Tail
from implanting.runtime import Progress, Stream, generator_of, silent

WAY, SHOT = 5, 5

CLASSIFY = PrototypeClassifier("gap", "dense", 10.0)

ENCODED = 16
"""Images per batch where the growth of encoding is measured."""

NAIVE_EPOCHS = 2
"""Epochs of the naive code; each takes equally long, so two are enough."""


@dataclass(frozen=True)
class Workload:
    """The supports of a task, as images and as cached activations."""

    network: Network
    images: Float[Tensor, "image 3 height width"]
    labels: Int[Tensor, " image"]
    cached: list[Float[Tensor, "image _ _"]]
    sizes: Sizes

    @classmethod
    def of_noise(cls, size: int, width: int) -> "Workload":
        """Images of noise, encoded by a fresh network."""
        network = fresh_network(NetworkConfig(width=width), size)
        labels = torch.arange(WAY).repeat_interleave(SHOT)
        images = torch.randn(len(labels), 3, size, size).contiguous(memory_format=torch.channels_last)
        with torch.no_grad():
            maps, phi = network.activations(images)
        cached = [part.flatten(2).transpose(1, 2).contiguous() for part in (*maps, phi)]
        return cls(network, images, labels, cached, tuple((part.shape[2], part.shape[3]) for part in maps))

    def adapt(self, tasks: int, together: int, epochs: int) -> None:
        """Adapt this many tasks, `together` of them at a time."""
        *base_maps, phi = (part.expand(together, *part.shape).contiguous() for part in self.cached)
        supports = Supports(base_maps, phi, self.labels, self.sizes)
        fitting = Fitting(self.network.tail, CLASSIFY, ImplantConfig(implant_epochs=epochs, implant_share=1.0))
        for first in range(0, tasks, together):
            fitting.trained(supports, [generator_of(0, Stream.IMPLANTS, first + number) for number in range(together)])


def compare(size: int, width: int, tasks: int, epochs: int, rounds: int, progress: Progress = silent) -> dict[str, Any]:
    """Seconds per task, speed-ups over both rivals, and our share of the speed of a large matrix product.

    The share is also given for one thread, which has the processor's caches to itself.
    """
    config, naive_config = ImplantConfig(implant_epochs=epochs), ImplantConfig(implant_epochs=NAIVE_EPOCHS)
    workload = Workload.of_noise(size, width)
    square = torch.randn(MATRIX, MATRIX)

    def naive() -> None:
        fresh = implants_of(workload.network, naive_config)
        adapt_one_task(workload.network, workload.images, workload.labels, fresh, naive_config)

    contestants: dict[str, Work] = {
        "ours": lambda: workload.adapt(tasks, tasks, epochs),
        "one task at a time": lambda: workload.adapt(tasks, 1, epochs),
        "naive": naive,
        "product": lambda: square @ square,
    }
    contestants |= {f"{name}, one thread": on_one_thread(contestants[name]) for name in ("ours", "product")}
    seconds = best_seconds(contestants, rounds, progress, f"measuring at {size} px")
    operations = tasks * _arithmetic(workload.network.tail, workload.sizes, workload.labels, config)

    def share(threads: str) -> float:
        return operations / seconds[f"ours{threads}"] / (2 * MATRIX**3 / seconds[f"product{threads}"])

    return {
        "size": size,
        "width": width,
        "ours": seconds["ours"] / tasks,
        "over_naive": seconds["naive"] / NAIVE_EPOCHS * epochs * tasks / seconds["ours"],
        "over_one_task": seconds["one task at a time"] / seconds["ours"],
        "share_of_peak": share(""),
        "share_of_peak_on_one_thread": share(", one thread"),
    }


def _linear_growth(
    size: int, width: int, together: int, rounds: int, progress: Progress = silent
) -> list[dict[str, Any]]:
    """How cost grows with the number of tasks, of epochs, and of images to encode."""
    workload = Workload.of_noise(size, width)
    images = workload.images[:1].expand(FACTOR * ENCODED, -1, -1, -1)

    def encode(count: int) -> None:
        with torch.no_grad():
            for batch in images[:count].split(ENCODED):
                workload.network.activations(batch.contiguous(memory_format=torch.channels_last))

    kinds = {
        "tasks": (together, lambda tasks: workload.adapt(tasks, together, epochs=1)),
        "epochs": (2, lambda epochs: workload.adapt(together, together, epochs)),
        "images encoded": (ENCODED, encode),
    }
    return growth(kinds, rounds, progress)


def _arithmetic(tail: Tail, sizes: Sizes, labels: Tensor, config: ImplantConfig) -> float:
    """Floating-point operations of adapting one task: one product per weight and location, forward and backward.

    The products between implants, batch norm and the loss, which are few, are not counted.
    """
    products = sum(
        layer.channels * layer.kernel**2 * config.implant_channels * math.prod(sizes[layer.reads])
        for layer in tail.layers
    )
    return 2.0 * 2 * products * len(labels) * config.implant_epochs


@dataclass(frozen=True)
class Adapt:
    """Adapting 5-way 5-shot tasks on cached activations, compared with naive code that runs the whole network on the
    supports in every epoch, one task at a time, and with a loop over tasks on the same cache.

    Implants are trained once per task, as in the paper; by default a share is chosen, which takes 2.3 times as long.
    """

    sizes: tuple[int, ...] = (32, 84)
    """Sides of the images in pixels."""
    width: int = 64
    """Width of ResNet-12."""
    tasks: int = 8
    """Tasks adapted together."""
    epochs: int = 5
    """Epochs per turn (the naive code runs 2); all times are proportional to the number of epochs."""
    rounds: int = 3
    """Timed turns of each contestant, after one to warm up."""
    memory_images: int = 12_000
    """Images in the cache for the measurement of memory."""
    memory_size: int = 32
    """Their side in pixels; 84 takes 5 GB of memory."""
    memory_tasks: tuple[int, ...] = (8, 64, 256)
    """Numbers of tasks for which memory is measured."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """One row per image size; the growth of cost at the smallest size; peak memory."""
        shape = (self.width, self.tasks, self.epochs, self.rounds)
        rows = []
        for size in self.sizes:
            say(f"adapting at {size} px")
            rows.append(compare(size, *shape, show_progress))
        say("growth")
        growth = _linear_growth(min(self.sizes), self.width, self.tasks, self.rounds, show_progress)
        say("peak memory of evaluating with implants")
        peaks = memory.implant_peaks(self.memory_images, self.memory_size, self.width, self.memory_tasks, show_progress)
        return rows, {"growth": growth, "peaks": peaks}

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """Print the tables."""
        self.show_speed(rows)
        show_growth(once["growth"], self.rounds)
        self.show_peaks(once["peaks"])

    def show_speed(self, rows: list[dict[str, Any]]) -> None:
        """Print the speed-ups over both rivals, and our share of the speed of a matrix product."""
        print_table(
            f"adapting 5-way 5-shot tasks, width {self.width}",
            ["px", "ms per task and epoch", "over naive", "over one task at a time", "share of peak", "on one thread"],
            [
                [
                    str(row["size"]),
                    f"{1e3 * row['ours'] / self.epochs:.2f}",
                    f"{row['over_naive']:.1f}",
                    f"{row['over_one_task']:.2f}",
                    f"{100 * row['share_of_peak']:.0f} %",
                    f"{100 * row['share_of_peak_on_one_thread']:.0f} %",
                ]
                for row in rows
            ],
            f"implants trained once, as with --implant-share 1; "
            f"best of {self.rounds} interleaved turns of {self.epochs} epochs; {self.tasks} tasks together; "
            f"{torch.get_num_threads()} threads except in the last column; "
            f"peak: a product of {MATRIX} x {MATRIX} matrices in the same run, with as many threads",
        )

    def show_peaks(self, rows: list[dict[str, Any]]) -> None:
        """Print the peak memory by number of tasks."""
        print_table(
            f"peak memory of evaluating with implants, width {self.width}, half-precision cache of noise",
            ["images", "px", "tasks", "cache, GB", "peak of the process, GB"],
            [
                [
                    *(str(row[name]) for name in ("images", "size", "tasks")),
                    *(f"{row[name] / 1e9:.2f}" for name in ("cache", "peak")),
                ]
                for row in rows
            ],
        )
