"""Groups of processes started by torchrun: joining them, and exchanging values."""

import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from implanting.runtime.work import world_size

Value = TypeVar("Value")

TIMEOUT = datetime.timedelta(minutes=10)
"""Time a process waits for the others before it gives up."""


def group() -> tuple[int, int]:
    """Return this process's rank and the size of its group; 0 and 1 if it has not joined one."""
    joined = dist.is_available() and dist.is_initialized()
    return (dist.get_rank(), dist.get_world_size()) if joined else (0, 1)


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Join the other processes, if there are any, and leave them at the end; do nothing if already joined."""
    if world_size() == 1 or group()[1] > 1:
        yield
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    # A restarted worker may find the same store, and would wait for the addresses of dead processes in it.
    store, number, size = next(rendezvous("env://", timeout=TIMEOUT))
    store = PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=number, world_size=size, timeout=TIMEOUT)
    try:
        yield
    finally:
        dist.destroy_process_group()


def from_rank_zero(value: Value) -> Value:
    """Return the value of rank 0 on every rank."""
    if group()[1] == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def share(total: int) -> slice:
    """Return this rank's part of a batch that all ranks share."""
    rank, size = group()
    part = total // size
    return slice(rank * part, (rank + 1) * part)


def synchronise(module: nn.Module, figures: Float[Tensor, " figure"]) -> Float[Tensor, " figure"]:
    """Average batch-norm statistics (in place) and a few figures over all processes, in one message.

    This is done after every step, so that all ranks always hold the same module and the result does not depend on when
    a checkpoint is written.
    """
    _, size = group()
    if size == 1:
        return figures
    statistics = [buffer for buffer in module.buffers() if buffer.is_floating_point()]
    message = torch.cat([figures, *(buffer.flatten() for buffer in statistics)])
    dist.all_reduce(message)
    message /= size
    figures, *averages = message.split([len(figures), *(buffer.numel() for buffer in statistics)])
    for buffer, average in zip(statistics, averages, strict=True):
        buffer.copy_(average.view_as(buffer))
    return figures


def total(values: Tensor) -> Tensor:
    """Sum a tensor over all processes."""
    if group()[1] > 1:
        dist.all_reduce(values)
    return values


def wait_for_all() -> None:
    """Wait until every process has reached this call."""
    if group()[1] > 1:
        dist.barrier()
