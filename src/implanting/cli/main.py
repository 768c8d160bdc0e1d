"""The command line: one table of verbs, each in a module of its own under `verbs/`.

Exit status: 0 success; 2 an error the user can fix, explained in one line; 1 a bug of ours, with its traceback; 130
stopped by Ctrl-C; 141 the reader of the output is gone. Results go to stdout, progress and warnings to stderr.
"""

import codecs
import errno
import gc
import io
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from implanting.cli.workers import follow_launcher
from implanting.errors import ImplantingError
from implanting.version import __version__

# Threads that spin while waiting make a network tens of times slower when another process uses the machine.
# This must be set before PyTorch is loaded; the user's own setting has priority.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

GONE = 141
"""The exit status if the reader of the output is gone: 128 + SIGPIPE."""

LATER = 3.0
"""Seconds before processes other than the first report an error; if the first failed too, torchrun has ended them."""

STOPPED = 130
"""The exit status after Ctrl-C: 128 + SIGINT."""

OUT_OF_MEMORY = re.compile(
    r"not enough memory|can't allocate memory|cannot allocate memory|out of memory|bad_?alloc|can't start new thread",
    re.I,
)
"""Parts of the messages by which PyTorch and Python's threads report that memory has run out."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers raised when writing to a full disk."""

VERBS = {
    "fit": "learn classes from a folder of photos, or change those of a saved classifier",
    "predict": "classify images",
    "score": "measure accuracy on labelled images, with a report",
    "check": "find wrong labels, copies and confusions among photos, and estimate the accuracy to expect",
    "suggest": "choose which unlabelled photos to label next",
    "explain": "show where an image resembles a class, as a heat map",
    "export": "write a classifier as one ONNX file, which runs without PyTorch",
    "serve": "serve a page to make classifiers by dropping photos, and an HTTP API",
    "demo": "train and test on handwritten digits, in about three minutes",
    "pretrain": "stage 1: train a base network on base classes",
    "join": "put base networks side by side, as one",
    "evaluate": "measure few-shot accuracy of a base network on novel classes",
    "reproduce": "reproduce a table or the figure of the paper, next to its own numbers, and check its claims",
    "bench": "measure speed and memory against the usual approach, on this machine",
    "info": "describe a checkpoint, the recipes or the methods",
}

SPELLED = {"±": "+-", "—": "-", "…": "...", "\N{MULTIPLICATION SIGN}": "x", "→": "->"}
"""Replacements for characters that the stream's encoding lacks; others are escaped."""

LONGEST = 200
"""The longest word that a message shows in full; only paths are longer."""


def usage() -> str:
    """Return the text of `implanting --help`."""
    verbs = "\n".join(f"  {verb:<10} {about}" for verb, about in VERBS.items())
    return (
        "usage: implanting VERB [options]\n\n"
        "Few-shot image classification by dense classification and implanting.\n\n"
        f"{verbs}\n\n"
        "`implanting VERB --help` shows the options of a command. Start with `implanting demo`."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status."""
    prepare_streams()
    follow_launcher()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            return run(given)
        finally:
            sys.stdout.flush()  # here, where an error can still be reported
    except ImplantingError as error:
        return refuse(str(error))
    except BrokenPipeError:  # for example when the output goes to `head`
        _abandon_output()
        return GONE
    except OSError as error:
        if error.errno == errno.ENOMEM:
            return refuse(out_of_memory(error))
        if error.filename is not None:
            return refuse(f"{error.filename}: {error.strerror}; check the path and its permissions")
        if error.errno not in FULL:
            raise
        _abandon_output()
        return refuse(f"cannot write: {error.strerror}; free some space or write elsewhere")
    except MemoryError as error:
        return refuse(out_of_memory(error))
    except RuntimeError as error:
        if not OUT_OF_MEMORY.search(str(error)):
            raise
        return refuse(out_of_memory(error))
    except KeyboardInterrupt:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough; only cleanup is left
        if _leads():
            print("implanting: stopped", file=sys.stderr, flush=True)
        return STOPPED


def out_of_memory(error: BaseException) -> str:
    """Describe a lack of memory, and ways to need less."""
    asked = re.search(r"[Uu]nable to allocate ([\d.]+ \w+)|allocate (\d+) bytes", str(error))
    size = (
        ""
        if asked is None
        else f" for {(asked[1] or '').replace('. ', ' ') or f'{int(asked[2]) / 2**30:.1f} GiB'} more"
    )
    return (
        f"there is not enough memory{size}: close other programs, or ask for less (fewer --workers, smaller images by "
        "--image-size, fewer classes or --queries, or --half if the command has it)"
    )


def _leads() -> bool:
    """Whether this process is the only one, or the first of those started by torchrun."""
    return os.environ.get("RANK", "0") == "0"


def run(given: list[str]) -> int:
    """Run the verb and return its exit status."""
    verb, *rest = given or ["--help"]
    if verb in ("-h", "--help", "help"):
        print(usage())
        return 0
    if verb == "--version":
        print(f"implanting {__version__}")
        return 0
    if verb not in VERBS:
        raise ImplantingError(f"'{verb}' is not a command; choose one of: {', '.join(VERBS)}")
    if any("\0" in argument for argument in rest):
        raise ImplantingError("an argument holds a NUL byte, which no path can: check what made it")
    if "" in rest:  # as a path, it would be the current folder
        raise ImplantingError(
            "an argument is empty, as that of a variable that is not set: name what is meant, or . for here"
        )
    return int(module_of(verb).main(rest))


def module_of(verb: str) -> ModuleType:
    """Import the module of a verb.

    Imported objects live until the process ends, so we exempt them from garbage collection, which saves a short command
    a quarter of its time.
    """
    gc.disable()
    try:
        return import_module(f"implanting.cli.verbs.{verb}")
    finally:
        gc.enable()
        gc.freeze()
        if getattr(signal.getsignal(signal.SIGINT), "__name__", "") == "stop_at_once":
            signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on, cleanup may be needed


def refuse(message: str) -> int:
    """Report an error that the user can fix; if all of several processes find it, only the first reports it."""
    if not _leads():
        time.sleep(LATER)
    print(f"implanting: {one_line(with_flags(message))}", file=sys.stderr)
    return 2


def with_flags(message: str) -> str:
    """Replace the settings that a library message names in backticks by the flags of the command line."""
    return re.sub(r"`([a-z][a-z0-9_]*)`", lambda setting: f"--{setting[1].replace('_', '-')}", message)


def prepare_streams() -> None:
    """Make sure that printing never fails because of an encoding or a stream that was closed at the start."""
    codecs.register_error("implanting.spell", spell)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 (open to the end)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="implanting.spell")
    warnings.formatwarning = lambda message, *_, **__: f"warning: {one_line(with_flags(str(message)))}\n"
    # Images that Pillow warns about are still below our limit; above it, we raise our own error.
    warnings.filterwarnings("ignore", "Image size .* could be decompression bomb", RuntimeWarning)


def spell(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that the stream's encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(map(_spelled, letters)), error.end


def _spelled(letter: str) -> str:
    if "\udc80" <= letter <= "\udcff":  # a byte of a file name that is not UTF-8
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return SPELLED.get(letter, letter.encode("ascii", "backslashreplace").decode())


def _abandon_output() -> None:
    """Discard the rest of standard output's buffer; otherwise Python fails on it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def one_line(text: str) -> str:
    """Format a message as one line: escape control characters, and shorten very long words (paths) in the middle."""
    printable = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return re.sub(rf"\S{{{LONGEST + 1},}}", _cut, printable)


def _cut(match: re.Match[str]) -> str:
    half = LONGEST // 2
    return f"{match[0][:half]}...{match[0][-half:]}"
