"""Randomness is an argument: a generator for each thing that is drawn, made from a seed, a stream and a number."""

import hashlib
from enum import IntEnum

from torch import Generator


class Stream(IntEnum):
    """What is drawn; two streams of one seed have nothing to do with each other."""

    ORDER = 0
    """The order of the images in an epoch."""
    AUGMENTATION = 1
    """The augmentation of a step."""
    IMPLANTS = 2
    """The initial implants of a task."""


def generator_of(seed: int, stream: Stream, number: int) -> Generator:
    """The generator of one epoch, step or task.

    PyTorch's generator looks at the lower 32 bits of its seed only, so the three numbers are hashed into these.
    """
    digest = hashlib.sha256(f"{seed} {int(stream)} {number}".encode()).digest()
    return Generator().manual_seed(int.from_bytes(digest[:4], "little"))
