"""Randomness is an argument: a generator for each thing that is drawn, made from a seed, a stream and a number."""

import hashlib
from enum import IntEnum
from numbers import Integral
from typing import Any

import numpy as np
from torch import Generator

from implanting.errors import ConfigError


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


def seed_from(random_state: Any) -> int:
    """A seed from what scikit-learn's estimators take: a seed, a numpy RandomState, or None for numpy's own."""
    if isinstance(random_state, Integral):
        random_state = np.random.RandomState(int(random_state))
    if not isinstance(random_state, np.random.RandomState | None):
        raise ConfigError(f"random_state is {random_state!r}; it must be a seed, a numpy RandomState or None")
    return int((random_state or np.random).randint(2**31))
