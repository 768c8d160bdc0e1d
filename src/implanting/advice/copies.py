"""Find copies of images, including re-encoded, scaled or mirrored ones, by thumbnails of 16 x 16 pixels.

Two images are copies if their thumbnails, after subtracting the mean of each colour, have a correlation above 0.97.
Among 2 x 1,000 photos of flowers and birds, the most similar pair of distinct photos had 0.93 (0.94 mirrored), and
JPEG copies of quality 20 to 85, down to a quarter of the size, had 0.98 or more (`docs/lab-log.md`). The network's
features do not help: they differ more between an image and its copy at half the size than between two photos of one
flower.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from implanting.images import BATCH, ImageSource, decode_batches
from implanting.runtime import Progress, silent

SIDE = 16
"""Side of a thumbnail in pixels."""

ALIKE = 0.97
"""Correlation above which two images count as copies."""

CHUNK = 1024
"""Number of images that are compared with all others per step."""

Thumbnails = UInt8[np.ndarray, "image 16 16 3"]


@dataclass(frozen=True)
class Copies:
    """Images that are copies of each other, by their indices."""

    images: tuple[int, ...]
    similarity: float
    """The smallest correlation of an image with its nearest copy."""
    across: bool
    """Whether they are in two or more classes, which no classifier can learn."""


def thumbnails_of(sources: Sequence[ImageSource], progress: Progress = silent) -> Thumbnails:
    """Make a thumbnail of each image; all of them must decode."""
    batches = decode_batches(sources, SIDE, 2 * BATCH, progress=progress, doing="looking for copies")
    parts = [batch.images.numpy() for batch in batches]
    return np.concatenate(parts) if parts else np.empty((0, SIDE, SIDE, 3), np.uint8)


def shrunken(images: UInt8[Tensor, "image height width 3"]) -> Thumbnails:
    """Make thumbnails of images that are already decoded."""
    parts = [
        torch.nn.functional.adaptive_avg_pool2d(batch.permute(0, 3, 1, 2).float(), SIDE).permute(0, 2, 3, 1)
        for batch in images.split(BATCH)
    ]
    return torch.cat(parts).round().to(torch.uint8).numpy()


def find_copies(thumbnails: Thumbnails, labels: Int[np.ndarray, " image"]) -> tuple[Copies, ...]:
    """Find groups of copies, those across classes first, then the most similar."""
    pairs = _pairs(thumbnails)
    group_of, nearest = list(range(len(thumbnails))), np.zeros(len(thumbnails))

    def root(image: int) -> int:
        while group_of[image] != image:
            image = group_of[image]
        return image

    for one, other, similarity in pairs:
        group_of[max(root(one), root(other))] = min(root(one), root(other))
        nearest[[one, other]] = np.maximum(nearest[[one, other]], similarity)
    members: dict[int, list[int]] = {}
    for image in sorted({end for one, other, _ in pairs for end in (one, other)}):
        members.setdefault(root(image), []).append(image)
    groups = [
        Copies(tuple(group), float(nearest[group].min()), len(set(labels[group].tolist())) > 1)
        for group in members.values()
    ]
    return tuple(sorted(groups, key=lambda group: (not group.across, -group.similarity)))


def _pairs(thumbnails: Thumbnails) -> list[tuple[int, int, float]]:
    plain, mirrored = _centred(thumbnails), _centred(thumbnails[:, :, ::-1])
    pairs = []
    for start in range(0, len(plain), CHUNK):
        rows = plain[start : start + CHUNK]
        alike = np.triu(np.maximum(rows @ plain[start:].T, rows @ mirrored[start:].T), 1)
        pairs += [(start + int(one), start + int(other), float(alike[one, other])) for one, other in _above(alike)]
    return pairs


def _above(alike: Float[np.ndarray, "row column"]) -> Int[np.ndarray, "pair 2"]:
    return np.argwhere(alike > ALIKE)


def _centred(thumbnails: Thumbnails) -> Float[np.ndarray, "image values"]:
    """Scale thumbnails to zero mean per colour and unit length; a plain image then correlates with no other."""
    values = thumbnails.reshape(len(thumbnails), SIDE * SIDE, 3).astype(np.float32)
    values = (values - values.mean(1, keepdims=True)).reshape(len(thumbnails), SIDE * SIDE * 3)
    return values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-6)
