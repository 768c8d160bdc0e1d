"""`implanting bench inference`: how fast images are classified."""

from dataclasses import dataclass, field
from typing import Any

import torch

from implanting.base import IMAGENET
from implanting.bench import inference
from implanting.config import ThreadsConfig, require
from implanting.console import print_table, show_progress
from implanting.errors import ConfigError
from implanting.networks import NETWORKS

KNOWN = (*NETWORKS, IMAGENET)

FOLDER = {
    "end_to_end": "end to end",
    "network_alone": "the network alone",
    "decoding_alone": "decoding alone",
    "decoding_whole": "decoding at full size, one thread",
}

LOST = {
    "mean_difference": "grey levels off by, on average",
    "largest_difference": "grey levels off by, at most",
    "probability_difference": "probabilities off by, at most",
}


@dataclass(frozen=True)
class Inference:
    """Classifying images: ours (batch norm and activations in the convolutions, small batches) against the same network
    in eager NCHW and, where the packages for `implanting export` are installed, against onnxruntime; then a folder of
    12-megapixel JPEGs from decoding to answers, against decoding alone and the network alone.
    """

    networks: tuple[str, ...] = ("resnet12", IMAGENET)
    """Networks: resnet12 (of width 64, random weights), c128f, efficientnet-lite0."""
    sizes: tuple[int, ...] = (84, 224)
    """Side in pixels of the images of each network."""
    images: int = 64
    """Images that the networks see."""
    photos: int = 40
    """JPEGs in the folder; 0 leaves it out."""
    rounds: int = 3
    """Turns of each contestant, after one to warm up."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """A row for each network, and one for each network and the folder."""
        self.check()
        pairs = list(zip(self.networks, self.sizes, strict=True))
        rows = [inference.compare_networks(*pair, self.images, self.rounds, show_progress) for pair in pairs]
        photos = [
            inference.compare_folder(*pair, self.photos, self.rounds, show_progress) for pair in pairs if self.photos
        ]
        return rows, {"folder": photos}

    def check(self) -> None:
        """Refuse what cannot be measured."""
        if len(self.networks) != len(self.sizes):
            raise ConfigError(f"--networks names {len(self.networks)}, --sizes {len(self.sizes)}: give each its size")
        for name in self.networks:
            require(name in KNOWN, "networks", name, f"one or more of {', '.join(KNOWN)}")
        require(self.images >= 1, "images", self.images, "1 or more")
        require(self.photos >= 0, "photos", self.photos, "0 or more")
        require(self.rounds >= 1, "rounds", self.rounds, "1 or more")

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """The tables."""
        measured = f"best of {self.rounds} turns, taken in turn; {torch.get_num_threads()} threads"
        print_table(
            f"classifying {self.images} decoded images, images/s",
            ["", *(titled(row) for row in rows)],
            [
                ["ours", *(f"{row['ours']:.1f}" for row in rows)],
                ["over eager NCHW, all at once", *(f"{row['over_eager']:.2f}" for row in rows)],
                ["over eager NCHW, in the same batches", *(f"{row['over_eager_in_batches']:.2f}" for row in rows)],
                ["over eager NCHW, one image", *(f"{row['over_eager_one_image']:.2f}" for row in rows)],
                ["onnxruntime over ours", *(ratio(row["onnxruntime_over_ours"]) for row in rows)],
                ["largest difference from eager", *(f"{row['difference']:.0e}" for row in rows)],
                ["seconds to make ready, once", *(f"{row['seconds_to_make_ready']:.2f}" for row in rows)],
            ],
            f"{measured}; difference: of a feature, against the largest feature",
        )
        if once["folder"]:
            print_table(
                f"classifying {self.photos} JPEGs of 12 megapixels, images/s",
                ["", *(titled(row) for row in once["folder"])],
                [
                    *([said, *(f"{row[way]:.1f}" for row in once["folder"])] for way, said in FOLDER.items()),
                    *([said, *(f"{row[what]:.2g}" for row in once["folder"])] for what, said in LOST.items()),
                ],
                f"{measured}; decoding at a fraction of the size (JPEG's draft mode), in threads beside the network; "
                "off: from decoding at full size",
            )


def titled(row: dict[str, Any]) -> str:
    """A network and its images."""
    return f"{row['network']}, {row['size']} px"


def ratio(value: float | None) -> str:
    """A ratio, or that it could not be measured."""
    return "not installed" if value is None else f"{value:.2f}"
