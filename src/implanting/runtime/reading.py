"""Opening what is to be read: regular files only.

A pipe would keep a command waiting for ever, and a device may never end, may change when it is opened, or give another
answer each time. So whatever this project reads is opened here.
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
"""What may stand where a file is needed."""


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """A regular file, open for reading; an `OSError` that says what is there where it is something else."""
    _check_regular(os.stat(path), path)  # noqa: PTH116 (names of any kind); before it is opened, which may have effects
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _check_regular(os.fstat(descriptor), path)  # what was opened, should it have been exchanged in between
    except BaseException:
        os.close(descriptor)
        raise
    return open(descriptor, "rb")  # noqa: PTH123 (a descriptor)


def _check_regular(found: os.stat_result, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, and a file is needed", os.fspath(path))
