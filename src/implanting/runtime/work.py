"""How work is done in one process: progress reports, threads, the device, and seeded random numbers.

Nothing is printed from the library: the caller passes in a wrapper of iterables, which tells whom it likes how far the
work is. PyTorch splits each operation among its threads, which pays for large ones only; where there are many small
ones, it is faster to give every thread parts of its own, each computed as on one thread. Randomness is an argument: a
generator for each thing that is drawn, made from a seed, a stream and a number.
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
    """Passes items on, and tells whom it likes how many have gone by."""

    def __call__(self, items: Iterable[T], description: str, total: int) -> Iterable[T]: ...


def silent(items: Iterable[T], description: str, total: int) -> Iterable[T]:  # noqa: ARG001 (a Progress)
    """The default: pass the items on and say nothing."""
    return items


def in_threads(
    work: Callable[[Part], Made], parts: Sequence[Part], progress: Progress = silent, description: str = ""
) -> list[Made]:
    """What `work` makes of each part, in order, by as many threads as PyTorch has, each operation by one of them.

    A thread starts with PyTorch's own settings: `no_grad` or `inference_mode` belong into `work`.
    """
    threads = torch.get_num_threads()
    if min(threads, len(parts)) <= 1:
        return [work(part) for part in progress(parts, description, len(parts))]
    torch.set_num_threads(1)  # threads that start from here on take this over
    try:
        with ThreadPoolExecutor(threads) as pool:
            return list(progress(pool.map(work, parts), description, len(parts)))
    finally:
        torch.set_num_threads(threads)


def shares(length: int) -> list[slice]:
    """So many items cut into a share for each of PyTorch's threads, as equal as can be; none is empty."""
    number = max(1, min(torch.get_num_threads(), length))
    return [slice(share * length // number, (share + 1) * length // number) for share in range(number)]


def rank() -> int:
    """The number that torchrun gave this process, 0 where it was started by itself."""
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """How many processes torchrun started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def restarted() -> bool:
    """Whether torchrun has started this worker again after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def set_threads(threads: int | None) -> None:
    """Compute with this many threads on the CPU, or as many as PyTorch finds; more than make sense are refused."""
    check_cores("threads", threads)
    if threads is not None:
        torch.set_num_threads(threads)


def choose_device(name: str) -> torch.device:
    """`auto` is CUDA (one GPU per local rank), Apple's GPU or the CPU; anything else is a PyTorch device's name."""
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
    """What is drawn; two streams of one seed have nothing to do with each other."""

    ORDER = 0
    """The order of the images in an epoch."""
    AUGMENTATION = 1
    """The augmentation of a step."""
    IMPLANTS = 2
    """The initial implants of a task."""
    EPISODES = 3
    """The episodes of a step, and what is drawn beside them."""


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
