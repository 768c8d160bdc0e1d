"""`implanting bench`: speed and memory as ratios in one run."""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from implanting.base_file import load_base
from implanting.bench import adapt, classifier, evaluate, memory, open_set, pretrain, processes
from implanting.bench.timing import FACTOR, PEAK
from implanting.commands.bench_inference import Inference
from implanting.commands.parsing import parse
from implanting.config import ClassifierConfig, RunConfig
from implanting.console import print_json, print_table, print_text, say, show_progress
from implanting.datasets import read_dataset
from implanting.distributed import set_threads
from implanting.errors import ConfigError


@dataclass(frozen=True)
class Pretrain:
    """Training images a second at 32 px against the usual loop (DataLoader with 2 workers, PIL transforms an image at a
    time, NCHW), the share of the convolutions, processes against threads, and the peak memory of reading a data set.
    """

    widths: tuple[int, ...] = (64, 32)
    """Widths of ResNet-12."""
    batch_size: int = 64
    """Images a step."""
    steps: int = 6
    """Steps a turn."""
    rounds: int = 3
    """Turns of each contestant, after one to warm up; of processes and threads, two at most."""
    memory_images: int = 72_000
    """Images in the pickle whose reading is measured; folders hold a ninth as many."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: RunConfig = field(default_factory=RunConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Rows for each width, and what is measured once."""
        rows = [
            pretrain.compare(width, self.batch_size, self.steps, self.rounds, show_progress) for width in self.widths
        ]
        say("one process of two threads against two of one")
        layouts = processes.compare(min(self.widths), 10 * self.steps, min(2, self.rounds))
        say("peak memory of reading")
        return rows, {"layouts": layouts, "reading_memory": memory.reading_ratios(self.memory_images)}

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """The tables."""
        print_table(
            "training, images/s at 32 px",
            ["width", "ours", "usual loop", "ratio"],
            [[str(row["width"]), f"{row['ours']:.0f}", f"{row['usual']:.0f}", f"{row['ratio']:.2f}"] for row in rows],
            f"best of {self.rounds} turns of {self.steps} steps of {self.batch_size} images each, taken in turn; "
            f"{torch.get_num_threads()} threads; usual loop: DataLoader with 2 workers, PIL transforms, NCHW",
        )
        print_table(
            "where a step's time goes",
            ["", *(f"width {row['width']}, {threads}" for row in rows for threads in row["shares"])],
            [
                [kind, *(f"{100 * shares[kind]:.1f} %" for row in rows for shares in row["shares"].values())]
                for kind in pretrain.KINDS_AND_OTHER
            ],
            "by the profiler's own time of each operator",
        )
        print_table(
            f"processes and threads, width {min(self.widths)}",
            ["", "images/s"],
            [[name, f"{speed:.0f}"] for name, speed in once["layouts"].items()],
            f"as `implanting pretrain` and `torchrun -m implanting pretrain` report it, best of {min(2, self.rounds)}",
        )
        print_table(
            "peak memory of reading a data set",
            ["", "times the tensor"],
            [[name, f"{ratio:.2f}"] for name, ratio in once["reading_memory"].items()],
        )


@dataclass(frozen=True)
class Adapt:
    """Adapting 5-way 5-shot tasks on cached activations, against the naive code that runs the whole network on the
    supports at every epoch, one task at a time, and against a loop over tasks on the same cache.
    """

    sizes: tuple[int, ...] = (32, 84)
    """Sides of the images in pixels."""
    width: int = 64
    """Width of ResNet-12."""
    tasks: int = 8
    """Tasks adapted together."""
    epochs: int = 5
    """Epochs of each contestant (of the naive code 2); the time of all of them grows in proportion."""
    rounds: int = 3
    """Turns of each contestant, after one to warm up."""
    memory_images: int = 12_000
    """Images in the cache whose memory is measured."""
    memory_size: int = 32
    """Their side in pixels; 84 takes 5 GB of memory."""
    memory_tasks: tuple[int, ...] = (8, 64, 256)
    """Numbers of tasks for which it is measured."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: RunConfig = field(default_factory=RunConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """A row for each image size; growth at the smallest; peak memory."""
        shape = (self.width, self.tasks, self.epochs, self.rounds)
        rows = []
        for size in self.sizes:
            say(f"adapting at {size} px")
            rows.append(adapt.compare(size, *shape, show_progress))
        say("growth")
        growth = adapt.linear_growth(min(self.sizes), self.width, self.tasks, self.rounds, show_progress)
        say("peak memory of evaluating with implants")
        peaks = memory.implant_peaks(self.memory_images, self.memory_size, self.width, self.memory_tasks, show_progress)
        return rows, {"growth": growth, "peaks": peaks}

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """The tables."""
        threads = torch.get_num_threads()
        print_table(
            f"adapting 5-way 5-shot tasks, width {self.width}",
            ["px", "ms a task and epoch", "over naive", "over one task at a time", "share of peak", "on one thread"],
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
            f"best of {self.rounds} turns of {self.epochs} epochs, taken in turn; {self.tasks} tasks together; "
            f"{threads} threads, but for the last column; peak: a product of {PEAK} x {PEAK} matrices in the same run, "
            "by as many threads",
        )
        show_growth(once["growth"], self.rounds)
        print_table(
            f"peak memory of evaluating with implants, width {self.width}, half-precision cache of noise",
            ["images", "px", "tasks", "cache, GB", "peak of the process, GB"],
            [
                [
                    *(str(row[name]) for name in ("images", "size", "tasks")),
                    *(f"{row[name] / 1e9:.2f}" for name in ("cache", "peak")),
                ]
                for row in once["peaks"]
            ],
        )


@dataclass(frozen=True)
class Evaluate:
    """Evaluating 5-way 5-shot tasks of 30 queries a class by prototypes with dense queries, against a loop over tasks
    that reads the same cached, normalised features: 4 locations as at 32 px, 25 as at 84 px.
    """

    locations: tuple[int, ...] = (4, 25)
    """Locations of a feature map."""
    tasks: int = 10_000
    """Number of tasks."""
    loop_tasks: int = 500
    """Tasks on which the loop is timed; it takes as long for each."""
    rounds: int = 2
    """Turns of each contestant, after one to warm up."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: RunConfig = field(default_factory=RunConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """A row for each number of locations; growth."""
        shape = (self.tasks, self.loop_tasks, self.rounds)
        rows = []
        for number in self.locations:
            say(f"tasks on feature maps of {number} locations")
            rows.append(evaluate.compare(number, *shape, show_progress))
        say("growth")
        return rows, {"growth": evaluate.linear_growth(self.locations, self.tasks, self.rounds, show_progress)}

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """The tables."""
        print_table(
            f"evaluating {self.tasks} 5-way 5-shot tasks, 30 queries a class, {evaluate.IMAGES} images",
            ["locations", "tasks/s", "over one task at a time", "share of memory bandwidth", "of matrix peak"],
            [
                [
                    str(row["locations"]),
                    f"{row['tasks_per_second']:.0f}",
                    f"{row['over_one_task']:.2f}",
                    f"{100 * row['share_of_bandwidth']:.0f} %",
                    f"{100 * row['share_of_peak']:.0f} %",
                ]
                for row in rows
            ],
            f"best of {self.rounds} turns, taken in turn, the loop on {min(self.loop_tasks, self.tasks)} tasks; "
            f"{torch.get_num_threads()} threads; bandwidth: bytes gathered (read and written) against a plain copy; "
            f"peak: the products against a product of {PEAK} x {PEAK} matrices; both in the same run",
        )
        show_growth(once["growth"], self.rounds)


def show_growth(rows: list[dict[str, Any]], rounds: int) -> None:
    """What eight times the work costs."""
    print_table(
        "growth",
        ["", "from", "to", "seconds", "seconds", "ratio of the cost of one"],
        [
            [
                row["kind"],
                str(row["units"]),
                str(FACTOR * row["units"]),
                f"{row['few']:.3f}",
                f"{row['many']:.3f}",
                f"{row['ratio']:.2f}",
            ]
            for row in rows
        ],
        f"best of {rounds} turns, taken in turn; linear is 1, and less where fixed costs are spread over more",
    )


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
    run: RunConfig = field(default_factory=RunConfig)

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


SUBJECTS: dict[str, type[Pretrain | Adapt | Evaluate | Inference | Classifier]] = {
    "pretrain": Pretrain,
    "adapt": Adapt,
    "evaluate": Evaluate,
    "inference": Inference,
    "classifier": Classifier,
}

USAGE = """usage: implanting bench {pretrain,adapt,evaluate,inference,classifier} [options]

Speed and memory on this machine, as ratios: what is compared takes turns in one run, and the best turn counts.
`implanting bench SUBJECT --help` says what is compared."""


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print_text(USAGE)
        return 0
    subject, *rest = arguments
    if subject not in SUBJECTS:
        raise ConfigError(f"'{subject}' is no subject of a bench; choose one of: {', '.join(SUBJECTS)}")
    command = parse(SUBJECTS[subject], f"bench {subject}", rest)
    set_threads(command.run.threads)
    began = time.monotonic()
    rows, once = command()
    if command.json:
        print_json(dataclasses.asdict(command), time.monotonic() - began, rows, **once)
    else:
        command.show(rows, once)
    return 0
