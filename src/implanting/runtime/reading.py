"""Open files for reading, regular files only.

A pipe could make a command wait forever, and a device may never end, may change when it is opened, or may differ each
time it is read. So this project opens every file it reads here.
"""

import errno
import os
import stat
from io import BufferedReader

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}
"""Descriptions of the things that may be found instead of a file."""


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading; an `OSError` says what was found instead."""
    _check_regular(os.stat(path), path)  # noqa: PTH116 (names of any kind); first, as opening may have side effects
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _check_regular(os.fstat(descriptor), path)  # again, in case the file was swapped in between
    except BaseException:
        os.close(descriptor)
        raise
    return open(descriptor, "rb")  # noqa: PTH123 (a descriptor)


def _check_regular(found: os.stat_result, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, and a file is needed", os.fspath(path))
