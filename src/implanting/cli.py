"""The command line: one table of verbs, each in a module of its own under `commands/`.

Exit status: 0 done; 2 something the user can mend, said in one line; 1 a bug of ours, with its traceback; 130 stopped
by Ctrl-C. Results go to stdout, progress and warnings to stderr.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from implanting import __version__
from implanting.errors import ImplantingError

# Threads that spin while they wait make a network tens of times slower when another process uses the machine.
# This must be set before PyTorch is loaded, and the user's own choice wins.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

VERBS = {
    "demo": "train and test on handwritten digits, in under three minutes",
    "pretrain": "stage 1: train a base network on base classes",
    "evaluate": "few-shot accuracy of a base network on novel classes",
    "reproduce": "a table of the paper, its figures beside ours, and what it claims",
    "bench": "speed and memory against the usual way, on this machine",
    "info": "what a checkpoint holds, and the recipes",
}


def usage() -> str:
    """What `implanting --help` prints."""
    verbs = "\n".join(f"  {verb:<10} {about}" for verb, about in VERBS.items())
    return (
        "usage: implanting VERB [options]\n\n"
        "Few-shot image classification by dense classification and implanting.\n\n"
        f"{verbs}\n\n"
        "`implanting VERB --help` tells what a verb takes. Start with `implanting demo`."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and give the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    verb, *rest = given or ["--help"]
    if verb in ("-h", "--help", "help"):
        print(usage())
        return 0
    if verb == "--version":
        print(f"implanting {__version__}")
        return 0
    try:
        if verb not in VERBS:
            raise ImplantingError(f"'{verb}' is no verb; choose one of: {', '.join(VERBS)}")
        return int(import_module(f"implanting.commands.{verb}").main(rest))
    except ImplantingError as error:
        print(f"implanting: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.filename is None:
            raise
        print(f"implanting: {error.filename}: {error.strerror}; check the path and its permissions", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("implanting: stopped", file=sys.stderr)
        return 130
