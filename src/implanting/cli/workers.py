"""Run a verb in several processes on this machine.

Workers import modules only from Python's installation, never from the current folder, whose files are not trusted. They
end with the process that started them, however it ends, and leave nothing in the temporary folder.
"""

import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import NoReturn

from implanting.errors import ConfigError

LAUNCHER = "IMPLANTING_LAUNCHER"
"""The environment variable with the id of the process that started a worker, and its temporary folder."""

WATCH = 0.5
"""Seconds between checks that this process is still running."""


def launch(workers: int, verb: str, arguments: Sequence[str]) -> int:
    """Run a verb in several processes on this machine with PyTorch's launcher, and return the exit status."""
    import logging  # here, as these are slow to load, and this module is loaded before every verb
    import tempfile

    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    from implanting.runtime import check_cores, check_memory

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    check_cores("workers", workers)
    check_memory(
        workers * used, f"starting {workers} workers", "lower `workers`"
    )  # each will need as much as this process
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # per worker
    os.environ["PYTHONSAFEPATH"] = "1"  # otherwise workers would import from the current folder first
    logging.disable(logging.ERROR)  # of the launcher: the workers report errors themselves
    with tempfile.TemporaryDirectory(prefix="implanting-") as logs:
        os.environ[LAUNCHER] = f"{os.getpid()} {logs}"
        settings = ["--standalone", "--log-dir", logs, "--nproc-per-node", str(workers), "-m"]
        program = ["--", "implanting", verb]  # the launcher would read --start as a short form of an option of its own
        try:
            torchrun.run(torchrun.parse_args([*settings, *program, *arguments]))
        except SignalException:
            return 130
        except ChildFailedError as error:
            number, failure = error.get_first_failure()
            if failure.exitcode < 0:
                name = signal.Signals(-failure.exitcode).name
                raise ConfigError(
                    f"worker {number} was ended by {name}: is there memory for {workers} workers?"
                ) from error
            return failure.exitcode
        finally:
            del os.environ[LAUNCHER]
    return 0


def follow_launcher() -> None:
    """If this process is a worker, make it end together with the process that started it."""
    number, _, logs = os.environ.get(LAUNCHER, "").partition(" ")
    if _is_worker():
        parent = int(number) if number.isdigit() else os.getppid()
        threading.Thread(target=_end_with, args=(parent, logs), daemon=True, name="implanting-launcher").start()


def end(status: int) -> NoReturn:
    """End this process with an exit status.

    A worker ends at once, without taking Python down first: PyTorch leaves threads behind that exchanged tensors, and
    one that drops its last tensor while Python is going down aborts the process.
    """
    if _is_worker():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _is_worker() -> bool:
    """Whether this process was started by `launch`, or by the user's own torchrun."""
    return LAUNCHER in os.environ or "TORCHELASTIC_RUN_ID" in os.environ


def _end_with(parent: int, logs: str) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH)
    if logs:
        shutil.rmtree(logs, ignore_errors=True)
    os._exit(1)
