"""Speed of classifying images: the network alone, and a folder of large photos from files to answers.

Ours (batch norm and activations in the convolutions, weights packed, small batches) is compared with the unchanged
network in eager NCHW, and with onnxruntime if it is installed. All start from uint8 images and end in the probabilities
of a few classes.
"""

import copy
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from implanting.base import IMAGENET, BaseNetwork, images_at_once, load_base
from implanting.bench.noise import fresh_network, random_pixels
from implanting.bench.timing import Work, best_seconds
from implanting.classifier import ImageClassifier, Learned
from implanting.config import NetworkConfig, ThreadsConfig, require
from implanting.console import print_table, show_progress
from implanting.dense_classification import PrototypeClassifier, locations
from implanting.errors import ConfigError
from implanting.export import EXPORTER, RUNTIME, installed, onnx_bytes, open_session, run
from implanting.fewshot import UNKNOWN
from implanting.images import ImageSource, Normalisation, Preprocessing, decode, decode_batches, resize
from implanting.networks import NETWORKS
from implanting.runtime import Progress, silent

WAY = 5
WIDTH, HEIGHT = 4000, 3000
"""Size of the photos in pixels: 12 megapixels."""


def _bench_base(name: str, size: int) -> BaseNetwork:
    """EfficientNet-Lite0, or ResNet-12 of the paper's width with random weights."""
    if name == IMAGENET:
        return load_base(name)
    network = fresh_network(NetworkConfig(name), size)  # type: ignore[arg-type] # NetworkConfig checks it
    preprocessing = Preprocessing((size, size), Normalisation((0.5,) * 3, (0.25,) * 3))
    return BaseNetwork(network, preprocessing, name=name, pooling="dense", tau=10.0)


def _bench_classifier(name: str, size: int) -> ImageClassifier:
    """A classifier of a few classes on that network, with random prototypes."""
    base = _bench_base(name, size)
    prototypes = torch.randn(WAY, base.network.dim, generator=torch.Generator().manual_seed(0))
    classify, counts = PrototypeClassifier("gap", "gap", base.tau), torch.ones(WAY, dtype=torch.long)
    classifier = ImageClassifier(base, device="cpu")
    classifier.learned_ = Learned(base, size, np.arange(WAY), prototypes, counts, classify, UNKNOWN)
    return classifier


def compare_networks(name: str, size: int, images: int, rounds: int, progress: Progress = silent) -> dict[str, Any]:
    """Images per second of each way, and how much our features differ from those of the unchanged network."""
    classifier, pixels = _bench_classifier(name, size), random_pixels(images, size)
    base, eager = classifier.base_, EagerNetwork(classifier.base_)
    began = time.perf_counter()
    _ = base.quick
    ready = time.perf_counter() - began
    seconds = best_seconds(_ways_of(classifier, eager, pixels), rounds, progress)
    expected = eager([pixels])
    return {
        "network": name,
        "size": size,
        **{way: (1 if way.endswith("one_image") else images) / taken for way, taken in seconds.items()},
        **_ratios(seconds),
        "seconds_to_make_ready": ready,
        "difference": ((base.embed(pixels) - expected).abs().max() / expected.abs().max()).item(),
    }


class EagerNetwork:
    """The unchanged network of a base, in NCHW."""

    def __init__(self, base: BaseNetwork) -> None:
        self.normalisation = base.preprocessing.normalisation
        self.network = copy.deepcopy(base.network).to(memory_format=torch.contiguous_format)  # type: ignore[call-arg] # a torch module takes it

    @torch.inference_mode()
    def __call__(self, batches: Sequence[Tensor]) -> Tensor:
        """phi of all images of the batches."""
        return torch.cat([locations(self.network(self.normalisation(batch).contiguous())) for batch in batches])


def _ways_of(classifier: ImageClassifier, eager: EagerNetwork, pixels: Tensor) -> dict[str, Work]:
    """From pixels to probabilities: eager, ours, and onnxruntime if it is installed."""
    learned, base = classifier.learned_, classifier.base_

    def answers(features: Tensor) -> Tensor:
        return learned.probabilities(learned.cosines(features))

    batches = pixels.split(images_at_once(base.network, *pixels.shape[1:3]))
    ways: dict[str, Work] = {
        "eager": lambda: answers(eager([pixels])),
        "eager_in_batches": lambda: answers(eager(batches)),
        "ours": lambda: answers(base.embed(pixels)),
        "eager_one_image": lambda: answers(eager([pixels[:1]])),
        "ours_one_image": lambda: answers(base.embed(pixels[:1])),
    }
    if installed(*EXPORTER, RUNTIME):
        session = open_session(onnx_bytes(classifier))
        ways["onnxruntime"] = lambda: [run(session, batch) for batch in batches]
    return ways


def _ratios(seconds: Mapping[str, float]) -> dict[str, float | None]:
    """Our speed relative to eager, and that of onnxruntime relative to ours."""
    return {
        "over_eager": seconds["eager"] / seconds["ours"],
        "over_eager_in_batches": seconds["eager_in_batches"] / seconds["ours"],
        "over_eager_one_image": seconds["eager_one_image"] / seconds["ours_one_image"],
        "onnxruntime_over_ours": seconds["ours"] / seconds["onnxruntime"] if "onnxruntime" in seconds else None,
    }


def compare_folder(name: str, size: int, photos: int, rounds: int, progress: Progress = silent) -> dict[str, Any]:
    """Images per second of a folder of 12-megapixel JPEGs: decoding alone, the network alone, and both in parallel."""
    classifier = _bench_classifier(name, size)
    with tempfile.TemporaryDirectory(prefix="implanting-bench-") as folder:
        paths: list[ImageSource] = list(write_photos(Path(folder), photos))
        pixels = torch.cat([batch.images for batch in decode_batches(paths, size)])
        contestants: dict[str, Work] = {
            "network_alone": lambda: classifier.predict_proba(pixels.numpy()),
            "decoding_alone": lambda: list(decode_batches(paths, size)),
            "decoding_whole": lambda: resize(decode(paths[0]), size),
            "end_to_end": lambda: classifier.predict_proba(paths),
        }
        seconds = best_seconds(contestants, rounds, progress)
        whole = resize(decode(paths[0]), size)
    counts = dict.fromkeys(contestants, photos) | {"decoding_whole": 1}
    speeds = {way: counts[way] / taken for way, taken in seconds.items()}
    return {"network": name, "size": size, **speeds, **_differences(classifier, pixels[0].numpy(), whole)}


def _differences(classifier: ImageClassifier, image: np.ndarray, whole: np.ndarray) -> dict[str, float]:
    """How an image decoded at a fraction of its size, and its answer, differ from the image decoded at full size."""
    levels = np.abs(image.astype(np.int16) - whole)
    one, other = classifier.predict_proba(np.stack([image, whole]))
    return {
        "mean_difference": float(levels.mean()),
        "largest_difference": float(levels.max()),
        "probability_difference": float(np.abs(one - other).max()),
    }


def write_photos(folder: Path, count: int) -> list[Path]:
    """JPEGs of 12 megapixels, made from a photo in scikit-learn with detail and noise like those of a camera."""
    from sklearn.datasets import load_sample_image

    photo = Image.fromarray(load_sample_image("china.jpg")).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    noise = np.random.default_rng(0).normal(0, 6, (HEIGHT, WIDTH, 1)).astype(np.float32)
    noisy = Image.fromarray((np.asarray(photo) + noise).clip(0, 255).astype(np.uint8))
    paths = [folder / f"{number:03}.jpg" for number in range(count)]
    noisy.save(paths[0], quality=90)
    for path in paths[1:]:  # separate files; equal contents do not change the work
        path.write_bytes(paths[0].read_bytes())
    return paths


KNOWN = (*NETWORKS, IMAGENET)

FOLDER = {
    "end_to_end": "end to end",
    "network_alone": "the network alone",
    "decoding_alone": "decoding alone",
    "decoding_whole": "decoding at full size, one thread",
}

DIFFERENCES = {
    "mean_difference": "grey levels off by, on average",
    "largest_difference": "grey levels off by, at most",
    "probability_difference": "probabilities off by, at most",
}


@dataclass(frozen=True)
class Inference:
    """Classifying images: ours (batch norm and activations in the convolutions, small batches) compared with the same
    network in eager NCHW and, if the packages for `implanting export` are installed, with onnxruntime; then a folder of
    12-megapixel JPEGs from decoding to answers, compared with decoding alone and the network alone.
    """

    networks: tuple[str, ...] = ("resnet12", IMAGENET)
    """Networks: resnet12 (of width 64, random weights), c128f, efficientnet-lite0."""
    sizes: tuple[int, ...] = (84, 224)
    """Side in pixels of the images, one per network."""
    images: int = 64
    """Number of images for the networks alone."""
    photos: int = 40
    """Number of JPEGs in the folder; 0 leaves this part out."""
    rounds: int = 3
    """Timed turns of each contestant, after one to warm up."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """One row per network, and one per network for the folder."""
        self.check()
        pairs = list(zip(self.networks, self.sizes, strict=True))
        rows = [compare_networks(*pair, self.images, self.rounds, show_progress) for pair in pairs]
        photos = [compare_folder(*pair, self.photos, self.rounds, show_progress) for pair in pairs if self.photos]
        return rows, {"folder": photos}

    def check(self) -> None:
        """Refuse settings that cannot be measured."""
        if len(self.networks) != len(self.sizes):
            raise ConfigError(
                f"`networks` names {len(self.networks)} and `sizes` {len(self.sizes)}: give one size per network"
            )
        for name in self.networks:
            require(name in KNOWN, "networks", name, f"one or more of {', '.join(KNOWN)}")
        require(self.images >= 1, "images", self.images, "1 or more")
        require(self.photos >= 0, "photos", self.photos, "0 or more")
        require(self.rounds >= 1, "rounds", self.rounds, "1 or more")

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """Print the tables."""
        measured = f"best of {self.rounds} interleaved turns; {torch.get_num_threads()} threads"
        print_table(
            f"classifying {self.images} decoded images, images/s",
            ["", *(_titled(row) for row in rows)],
            [
                ["ours", *(f"{row['ours']:.1f}" for row in rows)],
                ["over eager NCHW, all at once", *(f"{row['over_eager']:.2f}" for row in rows)],
                ["over eager NCHW, in the same batches", *(f"{row['over_eager_in_batches']:.2f}" for row in rows)],
                ["over eager NCHW, one image", *(f"{row['over_eager_one_image']:.2f}" for row in rows)],
                ["onnxruntime over ours", *(_ratio(row["onnxruntime_over_ours"]) for row in rows)],
                ["largest difference from eager", *(f"{row['difference']:.0e}" for row in rows)],
                ["seconds to make ready, once", *(f"{row['seconds_to_make_ready']:.2f}" for row in rows)],
            ],
            f"{measured}; difference: relative to the largest feature",
        )
        if once["folder"]:
            print_table(
                f"classifying {self.photos} JPEGs of 12 megapixels, images/s",
                ["", *(_titled(row) for row in once["folder"])],
                [
                    *([said, *(f"{row[way]:.1f}" for row in once["folder"])] for way, said in FOLDER.items()),
                    *([said, *(f"{row[what]:.2g}" for row in once["folder"])] for what, said in DIFFERENCES.items()),
                ],
                f"{measured}; decoding at a fraction of the size (JPEG's draft mode), in threads beside the network; "
                "off by: relative to decoding at full size",
            )


def _titled(row: dict[str, Any]) -> str:
    return f"{row['network']}, {row['size']} px"


def _ratio(value: float | None) -> str:
    return "not installed" if value is None else f"{value:.2f}"
