"""`implanting bench inference`: how fast images are classified."""

from dataclasses import dataclass, field
from typing import Any

import torch

from implanting.bench import inference
from implanting.config import RunConfig
from implanting.console import print_table, show_progress
from implanting.errors import ConfigError


@dataclass(frozen=True)
class Inference:
    """Classifying images: ours (batch norm folded, channels_last, small batches) against the same network in eager NCHW
    and, where `implanting[export]` is installed, against onnxruntime; then a folder of 12-megapixel JPEGs from decoding
    to answers, against decoding alone and the network alone.
    """

    networks: tuple[str, ...] = ("resnet12", "efficientnet-lite0")
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
    run: RunConfig = field(default_factory=RunConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """A row for each network, and one for each network and the folder."""
        if len(self.networks) != len(self.sizes):
            raise ConfigError(f"--networks names {len(self.networks)}, --sizes {len(self.sizes)}: give each its size")
        pairs = list(zip(self.networks, self.sizes, strict=True))
        rows = [inference.compare_networks(*pair, self.images, self.rounds, show_progress) for pair in pairs]
        folder = [
            inference.compare_folder(*pair, self.photos, self.rounds, show_progress) for pair in pairs if self.photos
        ]
        return rows, {"folder": folder}

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """The tables."""
        measured = f"best of {self.rounds} turns, taken in turn; {torch.get_num_threads()} threads"
        print_table(
            "classifying decoded images, images/s",
            ["network", "px", "eager NCHW", "ours", "over eager", "difference", "onnxruntime", "over ours"],
            [
                [row["network"], str(row["size"]), f"{row['eager']:.1f}", f"{row['ours']:.1f}"]
                + [f"{row['over_eager']:.2f}", f"{row['difference']:.0e}"]
                + (
                    [f"{row['onnxruntime']:.1f}", f"{row['onnxruntime_over_ours']:.2f}"]
                    if "onnxruntime" in row
                    else ["-", "-"]
                )
                for row in rows
            ],
            f"{measured}; {self.images} images; difference: largest, of a feature, against the largest feature",
        )
        print_table(
            f"classifying {self.photos} JPEGs of 12 megapixels, images/s",
            ["network", "px", "network alone", "decoding alone", "end to end", "decoding at full size, one thread"],
            [
                [
                    *(row["network"], str(row["size"]), f"{row['network_alone']:.1f}", f"{row['decoding_alone']:.1f}"),
                    *(f"{row['end_to_end']:.1f}", f"{row['decoding_whole']:.1f}"),
                ]
                for row in once["folder"]
            ],
            f"{measured}; decoding at a fraction of the size (JPEG's draft mode), in threads beside the network",
        )
