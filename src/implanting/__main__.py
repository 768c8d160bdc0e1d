"""The program: `implanting`, `python -m implanting`, and so `torchrun -m implanting`.

Started as a module, Python looks for others in the current folder first. That may hold anybody's files, and everything
that is needed is installed: from here on the folder is left out. Ctrl-C ends the program where it stands as long as
modules are loaded, since amid an import it would come out as an error of the import.
"""

import os
import signal
import sys


def stop_at_once(*_: object) -> None:
    """End with the status and the one line of a program that was stopped."""
    if os.environ.get("RANK", "0") == "0":
        os.write(2, b"implanting: stopped\n")
    os._exit(130)


if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody has other plans with it
    signal.signal(signal.SIGINT, stop_at_once)

if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:  # noqa: PTH109 (as Python itself writes it)
    del sys.path[0]

from implanting.cli import end, main  # noqa: E402 (after both)

if __name__ == "__main__":
    end(main())
