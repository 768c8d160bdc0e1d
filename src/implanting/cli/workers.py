"""A verb in several processes on this machine."""

import logging
import os
import signal
from collections.abc import Sequence

from implanting.errors import ConfigError


def launch(workers: int, verb: str, arguments: Sequence[str]) -> int:
    """Run a verb in several processes on this machine by PyTorch's own launcher, and give the exit status."""
    from torch.distributed import run as torchrun  # here, as it is slow to load
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of each worker
    logging.disable(logging.ERROR)  # the launcher's: what there is to say, the workers say
    settings = ["--standalone", "--nproc-per-node", str(workers), "-m", "implanting", verb, *arguments]
    try:
        torchrun.run(torchrun.parse_args(settings))
    except SignalException:
        return 130
    except ChildFailedError as error:
        number, failure = error.get_first_failure()
        if failure.exitcode < 0:
            name = signal.Signals(-failure.exitcode).name
            raise ConfigError(f"worker {number} was ended by {name}: is there memory for {workers} workers?") from error
        return failure.exitcode
    return 0
