"""Work within one process: progress reports, threads, the device, and seeded random numbers.

The library prints nothing: the caller passes in a wrapper of iterables that reports progress as it likes. PyTorch
splits each operation among its threads, which pays off only for large operations; for many small ones, it is faster if
each thread processes whole parts of the work. Randomness is an argument: there is one generator per random draw, seeded
by a seed, a stream and a number.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from numbers import Integral
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Generator

from implanting.errors import ConfigError
from implanting.runtime.machine import check_cores

T = TypeVar("T")
Part = TypeVar("Part")
Made = TypeVar("Made")


@runtime_checkable
class Progress(Protocol):
    """Yields items unchanged while reporting how many have passed."""

    def __call__(self, items: Iterable[T], description: str, total: int) -> Iterable[T]: ...


def silent(items: Iterable[T], description: str, total: int) -> Iterable[T]:  # noqa: ARG001 (a Progress)
    """Pass the items on without a report; the default."""
    return items


def in_threads(
    work: Callable[[Part], Made], parts: Sequence[Part], progress: Progress = silent, description: str = ""
) -> list[Made]:
    """Apply `work` to each part and return the results in order; as many threads as PyTorch has share the parts.

    A thread starts with PyTorch's default settings, so use `no_grad` or `inference_mode` inside `work`.
    """
    threads = torch.get_num_threads()
    if min(threads, len(parts)) <= 1:
        return [work(part) for part in progress(parts, description, len(parts))]
    torch.set_num_threads(1)  # inherited by threads started from here on
    try:
        with ThreadPoolExecutor(threads) as pool:
            return list(progress(pool.map(work, parts), description, len(parts)))
    finally:
        torch.set_num_threads(threads)


def shares(length: int) -> list[slice]:
    """Divide `length` items evenly among PyTorch's threads; no share is empty."""
    number = max(1, min(torch.get_num_threads(), length))
    return [slice(share * length // number, (share + 1) * length // number) for share in range(number)]


def rank() -> int:
    """Return the rank that torchrun gave this process, or 0 without torchrun."""
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """Return the number of processes that torchrun started, or 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def restarted() -> bool:
    """Whether torchrun has restarted this worker after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def set_threads(threads: int | None) -> None:
    """Set the number of CPU threads; None leaves it to PyTorch, and far more threads than cores are an error."""
    check_cores("threads", threads)
    if threads is not None:
        torch.set_num_threads(threads)


def choose_device(name: str) -> torch.device:
    """Choose the device: `auto` is CUDA (one GPU per local rank), Apple's GPU or the CPU; else a PyTorch name."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # does it compute?
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(
            f"`device` {name} cannot be used here ({str(error).splitlines()[0]}); try auto or cpu"
        ) from error
    return device


class Stream(IntEnum):
    """The purpose of random numbers; the streams of one seed are independent."""

    ORDER = 0
    """The order of the images in an epoch."""
    AUGMENTATION = 1
    """The augmentation of a step."""
    IMPLANTS = 2
    """The initial implants of a task."""
    EPISODES = 3
    """The episodes of a step, and other random choices of that step."""
    ROTATION = 4
    """The quarter turns of the images of a step."""
    MIXUP = 5
    """How the images of a step are mixed."""


def generator_of(seed: int, stream: Stream, number: int) -> Generator:
    """Make the generator of one epoch, step or task.

    PyTorch's generator uses only the lower 32 bits of its seed, so the three numbers are hashed into those.
    """
    digest = hashlib.sha256(f"{seed} {int(stream)} {number}".encode()).digest()
    return Generator().manual_seed(int.from_bytes(digest[:4], "little"))


def seed_from(random_state: Any) -> int:
    """Get a seed from scikit-learn's `random_state`: a seed, a numpy RandomState, or None for numpy's global one."""
    if isinstance(random_state, Integral):
        random_state = np.random.RandomState(int(random_state))
    if not isinstance(random_state, np.random.RandomState | None):
        raise ConfigError(f"random_state is {random_state!r}; it must be a seed, a numpy RandomState or None")
    return int((random_state or np.random).randint(2**31))
