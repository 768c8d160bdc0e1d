"""The limits of this machine: its cores and its free memory."""

import os
import re
from pathlib import Path

from implanting.errors import ConfigError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

MEMORY = Path("/proc/meminfo")
"""The file in which Linux reports its memory."""

GROUP = Path("/sys/fs/cgroup")
"""The folder in which Linux reports the limits of a container."""

OWN = Path("/proc/self/statm")
"""The file in which Linux reports the memory of this process, in pages."""

PER_CORE = 4
"""The largest number of processes or threads per core; more only wait for each other, and each takes memory."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, _cores_of_group() or allowed))


def _cores_of_group() -> int | None:
    """The cores' worth of time that a container may use, rounded up."""
    try:
        quota, period = (GROUP / "cpu.max").read_text().split()
        return -(-int(quota) // int(period))
    except (OSError, ValueError):  # not in a container, or one without a limit
        return None


def free_memory() -> int | None:
    """Return the bytes of free memory, or None if they cannot be determined."""
    found = [value for value in (_available(), _left_in_group(), _left_of_limit()) if value is not None]
    return min(found, default=None)


def _available() -> int | None:
    if not MEMORY.exists():
        return None
    available = re.search(r"MemAvailable:\s+(\d+) kB", MEMORY.read_text())
    return int(available[1]) * 1024 if available else None


def _left_in_group() -> int | None:
    try:
        limit, used = ((GROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return max(0, int(limit) - int(used))
    except (OSError, ValueError):  # not in a container, or one without a limit
        return None


def _left_of_limit() -> int | None:
    """The bytes that `ulimit -v` still allows this process."""
    if resource is None or not OWN.exists():
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    return max(0, limit - int(OWN.read_text().split()[0]) * resource.getpagesize())


def check_cores(setting: str, asked: int | None) -> None:
    """Raise an error for more processes or threads than this machine can use."""
    most = PER_CORE * cores()
    if asked is not None and asked > most:
        raise ConfigError(f"`{setting}` is {asked}; this machine has {cores()} cores: at most {most} make sense here")


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Raise an error, before allocation, if this machine does not have enough memory."""
    free = free_memory()
    if free is not None and needed > free:
        raise ConfigError(f"{what} needs {needed / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} are free: {remedy}")
