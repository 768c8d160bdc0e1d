"""Arrays in files: large arrays in a folder that is kept, or one copy shared by all processes of a machine.

Processes on one machine see the same files: each fills its part of the arrays, then all of them read the whole.
"""

import errno
import fcntl
import io
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

import numpy as np

from implanting.config import MEMORY_BUDGET
from implanting.errors import DataError
from implanting.runtime.processes import from_rank_zero, group, wait_for_all
from implanting.runtime.reading import open_file
from implanting.runtime.writing import open_new

Shape = tuple[int, ...]

KEY = ".implanting"
"""The file in a folder of arrays that is locked while arrays are written there."""

TURN = 32
"""Rows that one process of a machine fills before it is the next one's turn."""


def on_one_machine() -> bool:
    """Whether several processes have joined a group and all of them run on this machine."""
    return 1 < group()[1] == int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def falls_to_this_process(rows: slice) -> bool:
    """Whether this process must compute a batch; the processes of one machine take turns."""
    rank, size = group()
    return not on_one_machine() or rows.start // TURN % size == rank


def file_of(folder: Path, number: int) -> Path:
    """Return the path of one array's file."""
    return folder / f"map-{number}.npy"


def common_arrays(shapes: Sequence[Shape], dtype: np.dtype) -> list[np.ndarray]:
    """Create arrays shared by all processes of this machine, in temporary files that vanish with the last process."""
    first = group()[0] == 0
    folder = Path(from_rank_zero(tempfile.mkdtemp(prefix="implanting-") if first else ""))
    try:
        _create_for_all(folder, shapes, dtype, "set TMPDIR to a larger disk")
        arrays = open_files(folder, shapes, dtype, "r+")
        wait_for_all()
    finally:
        if first:
            shutil.rmtree(folder, ignore_errors=True)
    return arrays


@contextmanager
def kept_arrays(folder: Path, shapes: Sequence[Shape], dtype: np.dtype, remedy: str) -> Iterator[list[np.ndarray]]:
    """Create arrays in a folder, to be filled in the `with` block; if it fails, all files are removed.

    Processes on several machines may not see each other's files, so there only the first process has the arrays.
    """
    first = group()[0] == 0
    try:
        _create_for_all(folder, shapes, dtype, remedy)
        yield open_files(folder, shapes, dtype, "r+") if first or on_one_machine() else []
        wait_for_all()
    except BaseException:  # including Ctrl-C: half-filled files are useless
        if first:
            _remove_files(folder, len(shapes))
        raise


def _create_for_all(folder: Path, shapes: Sequence[Shape], dtype: np.dtype, remedy: str) -> None:
    """Create the files on rank 0; its failure is raised on every rank, so that none waits for it."""
    fault = None
    if group()[0] == 0:
        try:
            _create_files(folder, shapes, dtype, remedy)
        except DataError as error:
            fault = error
    if (fault := from_rank_zero(fault)) is not None:
        raise fault


def _create_files(folder: Path, shapes: Sequence[Shape], dtype: np.dtype, remedy: str) -> None:
    """Create files of the full size, so that a full disk is noticed before anything is computed."""
    _make_folder(folder)
    try:
        for number, shape in enumerate(shapes):
            _create_file(file_of(folder, number), shape, dtype)
    except OSError as error:
        _remove_files(folder, len(shapes))
        needed = size_in_words(sum(int(np.prod(shape)) for shape in shapes) * dtype.itemsize)
        raise DataError(f"{folder} has no room for {needed} ({error.strerror}): free space, or {remedy}") from error


def _make_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; a folder is needed to keep activations in: name another")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be made ({error.strerror}): name another") from error


def _create_file(file: Path, shape: Shape, dtype: np.dtype) -> None:
    """Create a .npy file of the full size; an existing file or link is removed, never written to."""
    file.unlink(missing_ok=True)
    with open_new(file) as opened:
        opened.write(_header_of(shape, dtype))
        opened.flush()
        _reserve(opened, _size_of(shape, dtype))


def _header_of(shape: Shape, dtype: np.dtype) -> bytes:
    """Return the header of a .npy file for such an array."""
    file, facts = io.BytesIO(), {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, facts)
    return file.getvalue()


def _size_of(shape: Shape, dtype: np.dtype) -> int:
    return len(_header_of(shape, dtype)) + math.prod(shape) * dtype.itemsize


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder, so that one process at a time runs the `with` block; others wait for the lock.

    In a group of processes, the first takes the lock for all of them. A missing folder is created; a folder with arrays
    that were not written by this project is an error.
    """
    with ExitStack() as held:
        fault = None
        if group()[0] == 0:
            try:
                held.enter_context(_locked(folder))
            except DataError as error:
                fault = error
        if (fault := from_rank_zero(fault)) is not None:
            raise fault
        yield


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    _make_folder(folder)
    key = folder / KEY
    if not key.exists() and any(folder.glob("map-*.npy")):
        raise DataError(f"the folder {folder} holds arrays that were not written here: name another, or remove them")
    try:
        descriptor = os.open(key, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be written to ({error.strerror}): name another") from error
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def open_files(folder: Path, shapes: Sequence[Shape], dtype: np.dtype, mode: Literal["r+", "c"]) -> list[np.ndarray]:
    """Memory-map the arrays of a folder; a file that is not the expected array raises a `ValueError`.

    The header of a file is compared with the expected one and never interpreted.
    """
    return [_open_array(file_of(folder, number), shape, dtype, mode) for number, shape in enumerate(shapes)]


def _open_array(file: Path, shape: Shape, dtype: np.dtype, mode: Literal["r+", "c"]) -> np.ndarray:
    header = _header_of(shape, dtype)
    with open_file(file) as opened:
        found, size = opened.read(len(header)), os.fstat(opened.fileno()).st_size
    if found != header or size != _size_of(shape, dtype):
        raise ValueError(f"{file.name} has {size} bytes and is not the array {dtype} {list(shape)} that is needed")
    if not math.prod(shape):
        return np.empty(shape, dtype)
    return np.memmap(file, dtype, mode, len(header), shape)


def _remove_files(folder: Path, arrays: int) -> None:
    for number in range(arrays):
        with suppress(OSError):  # not created yet, or gone already: the original error is reported, not this one
            file_of(folder, number).unlink()


def size_in_words(size: int) -> str:
    """Format a number of bytes: `39.1 KiB`, `3.2 MiB`, `1.5 GiB`."""
    power = next((power for power in (10, 20) if size < 2 ** (power + 10)), 30)
    return f"{size / 2**power:.1f} {({10: 'KiB', 20: 'MiB', 30: 'GiB'})[power]}"


def allocate(shape: Sequence[int], budget: int = MEMORY_BUDGET) -> np.ndarray:
    """Allocate a uint8 array in memory or, beyond the budget, in a temporary file that is deleted with the array."""
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
    """Reserve the disk space of a file now; otherwise a full disk would cause a bus error later."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    if shutil.disk_usage(tempfile.gettempdir()).free < size:  # the best check there is on macOS
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    file.truncate(size)
