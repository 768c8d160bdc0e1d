"""Work on several threads: each takes some of the parts, not a share of every operation.

PyTorch splits each operation among its threads, which pays for large ones only. Where there are many small ones, it is
faster to give every thread parts of its own, each computed as on one thread.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from implanting.runtime.progress import Progress, silent

Part = TypeVar("Part")
Made = TypeVar("Made")


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
