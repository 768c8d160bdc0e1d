"""Run images through a frozen network: batch sizes and threads.

Batches are small, so that maps stay in the processor's cache. On the CPU each thread processes whole batches, which is
faster than splitting every operation among the threads (`runtime.in_threads`).
"""

import math
from collections.abc import Callable
from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from implanting.dense_classification import locations
from implanting.images import Normalisation
from implanting.networks import Embedding, device_of, reading_maps, readings
from implanting.runtime import Progress, in_threads, silent

BATCH = 32
"""The largest batch; maps of larger ones do not fit in the processor's cache."""

LARGEST_MAP = 5 * 2**20
"""The largest size (20 MiB) of any intermediate map, in numbers, unless a single image exceeds it. The allocator
returns larger blocks to the system after each use, and fetching them again takes longer than the convolution."""

Made = TypeVar("Made")


def images_at_once(network: Embedding, height: int, width: int) -> int:
    """Choose the batch size for images of this size: fast, and small in memory even for large images."""
    return max(1, min(BATCH, int(LARGEST_MAP // (network.numbers_per_pixel * height * width))))


def through(
    network: Embedding,
    images: UInt8[Tensor, "image height width 3"],
    work: Callable[[slice], Made],
    progress: Progress = silent,
    description: str = "",
) -> list[Made]:
    """Call `work` with the slice of each batch, and return the results in order."""
    at_once = images_at_once(network, images.shape[1], images.shape[2])
    if device_of(network).type != "cpu" or not network.thread_safe:
        batches = _slices(len(images), at_once)
        return [work(rows) for rows in progress(batches, description, len(batches))]
    share = math.ceil(len(images) / torch.get_num_threads())
    return in_threads(work, _slices(len(images), max(1, min(at_once, share))), progress, description)


def _slices(length: int, step: int) -> list[slice]:
    """Divide `length` items into slices of `step`; for no items, return one empty slice."""
    return [slice(start, min(start + step, length)) for start in range(0, max(length, 1), step)]


def embed(
    network: Embedding,
    normalisation: Normalisation,
    images: UInt8[Tensor, "image height width 3"],
    progress: Progress = silent,
) -> Float[Tensor, "image location dim"]:
    """Compute phi of each image with a network in evaluation mode."""

    def phi(rows: slice) -> Float[Tensor, "batch location dim"]:
        return embed_batch(network, normalisation, images[rows])

    return torch.cat(through(network, images, phi, progress, "embedding"))


@torch.inference_mode()
def embed_batch(
    network: Embedding, normalisation: Normalisation, images: UInt8[Tensor, "image height width 3"]
) -> Float[Tensor, "image location dim"]:
    """Compute phi of one batch of images."""
    return locations(network(normalisation(images.to(device_of(network)))))


def read(
    network: Embedding,
    normalisation: Normalisation,
    images: UInt8[Tensor, "image height width 3"],
    progress: Progress = silent,
) -> Float[Tensor, "image dim"]:
    """Compute the readings of each image, each of unit length, and concatenate them in CPU memory."""

    @torch.inference_mode()
    def joined(rows: slice) -> Float[Tensor, "batch dim"]:
        found = readings(network, normalisation(images[rows].to(device_of(network))))
        return torch.cat([F.normalize(reading, dim=1) for reading in found], 1).cpu()

    return torch.cat(through(network, images, joined, progress, "embedding"))


@torch.inference_mode()
def map_readings(
    network: Embedding, normalisation: Normalisation, images: UInt8[Tensor, "image height width 3"]
) -> Float[Tensor, "image dim rows columns"]:
    """Compute the contribution of each location to the joined readings of a few images."""
    maps = reading_maps(network, normalisation(images.to(device_of(network))))
    lengths = (part.mean((2, 3), keepdim=True).norm(dim=1, keepdim=True).clamp_min(1e-12) for part in maps)
    return torch.cat([part / length for part, length in zip(maps, lengths, strict=True)], 1).cpu()
