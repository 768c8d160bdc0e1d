"""Arrays in files: large ones in a folder that is kept, or one copy for all processes of a machine.

Processes of one machine see the same files: each fills its part of the arrays, then all read the whole.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

import numpy as np

from implanting.config import MEMORY_BUDGET
from implanting.errors import DataError
from implanting.runtime.processes import from_rank_zero, group, wait_for_all

Shape = tuple[int, ...]

TURN = 32
"""Rows that one process of a machine fills before the next one's turn comes."""


def on_one_machine() -> bool:
    """Whether several processes have joined and all of them run on this machine."""
    return 1 < group()[1] == int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def falls_to_this_process(rows: slice) -> bool:
    """Whether a batch is for this process to compute; the processes of one machine take turns."""
    rank, size = group()
    return not on_one_machine() or rows.start // TURN % size == rank


def file_of(folder: Path, number: int) -> Path:
    """The file of one array."""
    return folder / f"map-{number}.npy"


def common_arrays(shapes: Sequence[Shape], dtype: np.dtype) -> list[np.ndarray]:
    """New arrays that all processes of this machine see, in temporary files that go with the last process."""
    first = group()[0] == 0
    folder = Path(from_rank_zero(tempfile.mkdtemp(prefix="implanting-") if first else ""))
    try:
        _create_for_all(folder, shapes, dtype, "set TMPDIR to a larger disk")
        arrays = open_files(folder, len(shapes), "r+")
        wait_for_all()
    finally:
        if first:
            shutil.rmtree(folder, ignore_errors=True)
    return arrays


@contextmanager
def kept_arrays(folder: Path, shapes: Sequence[Shape], dtype: np.dtype, remedy: str) -> Iterator[list[np.ndarray]]:
    """New arrays in a folder, to be filled in the block; where that does not end well, no file is left.

    Processes of several machines may not see each other's files: there the first of all processes has them alone.
    """
    first = group()[0] == 0
    try:
        _create_for_all(folder, shapes, dtype, remedy)
        yield open_files(folder, len(shapes), "r+") if first or on_one_machine() else []
        wait_for_all()
    except BaseException:  # Ctrl-C too: half-filled files are worth nothing
        if first:
            _remove_files(folder, len(shapes))
        raise


def _create_for_all(folder: Path, shapes: Sequence[Shape], dtype: np.dtype, remedy: str) -> None:
    """Files that the first process makes; where it cannot, all of them fail alike, and none waits for it in vain."""
    fault = None
    if group()[0] == 0:
        try:
            _create_files(folder, shapes, dtype, remedy)
        except DataError as error:
            fault = error
    if (fault := from_rank_zero(fault)) is not None:
        raise fault


def _create_files(folder: Path, shapes: Sequence[Shape], dtype: np.dtype, remedy: str) -> None:
    """Files of the full size, so that a full disk is found before anything is computed."""
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; a folder is needed to keep activations in: name another")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be made ({error.strerror}): name another") from error
    try:
        for number, shape in enumerate(shapes):
            file = file_of(folder, number)
            np.lib.format.open_memmap(file, mode="w+", dtype=dtype, shape=shape)
            with file.open("r+b") as opened:
                _reserve(opened, file.stat().st_size)
    except OSError as error:
        _remove_files(folder, len(shapes))
        needed = size_in_words(sum(int(np.prod(shape)) for shape in shapes) * dtype.itemsize)
        raise DataError(f"{folder} has no room for {needed} ({error.strerror}): free space, or {remedy}") from error


def open_files(folder: Path, arrays: int, mode: Literal["r+", "c"]) -> list[np.ndarray]:
    """The arrays of a folder, memory-mapped."""
    return [np.load(file_of(folder, number), mmap_mode=mode) for number in range(arrays)]


def _remove_files(folder: Path, arrays: int) -> None:
    for number in range(arrays):
        with suppress(
            OSError
        ):  # not made yet, or no longer to be had: the error that led here is reported, not this one
            file_of(folder, number).unlink()


def size_in_words(size: int) -> str:
    """`39.1 KiB`, `3.2 MiB`, `1.5 GiB`."""
    power = next((power for power in (10, 20) if size < 2 ** (power + 10)), 30)
    return f"{size / 2**power:.1f} {({10: 'KiB', 20: 'MiB', 30: 'GiB'})[power]}"


def allocate(shape: Sequence[int], budget: int = MEMORY_BUDGET) -> np.ndarray:
    """An uint8 array in memory or, beyond the budget, in a temporary file that goes with the array."""
    needed = int(np.prod(shape, dtype=np.int64))
    if needed <= budget:
        return np.empty(shape, np.uint8)
    with tempfile.TemporaryFile(prefix="implanting-") as file:
        try:
            _reserve(file, needed)
        except OSError as fault:
            raise DataError(
                f"{needed / 2**30:.1f} GiB of images do not fit in {tempfile.gettempdir()} ({fault.strerror}): "
                "free space there, set TMPDIR to a larger disk, or lower `image_size`"
            ) from fault
        return np.memmap(file, np.uint8, "r+", shape=tuple(shape)).view(np.ndarray)


def _reserve(file: IO[bytes], size: int) -> None:
    """Take the disk space of a file now: a full disk would otherwise show only later, as a bus error."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    if shutil.disk_usage(tempfile.gettempdir()).free < size:  # macOS: the best that can be asked
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    file.truncate(size)
