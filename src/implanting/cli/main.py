"""The command line: one table of verbs, each in a module of its own under `verbs/`.

Exit status: 0 done; 2 something the user can mend, said in one line; 1 a bug of ours, with its traceback; 130 stopped
by Ctrl-C; 141 nobody reads the output any more. Results go to stdout, progress and warnings to stderr.
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

# Threads that spin while they wait make a network tens of times slower when another process uses the machine.
# This must be set before PyTorch is loaded, and the user's own choice wins.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

GONE = 141
"""The status of a program that nobody reads from any more: 128 + SIGPIPE."""

LATER = 3.0
"""Seconds after which other processes than the first tell an error: if the first failed too, torchrun has ended it."""

STOPPED = 130
"""The status of a program that Ctrl-C stopped: 128 + SIGINT."""

OUT_OF_MEMORY = re.compile(
    r"not enough memory|can't allocate memory|cannot allocate memory|out of memory|bad_?alloc|can't start new thread",
    re.I,
)
"""What the errors of PyTorch and of Python's threads say where memory has run out."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What writing raises where there is no room."""

VERBS = {
    "fit": "learn classes from a folder of photos, or change those of a saved classifier",
    "predict": "the class of each of many images",
    "score": "accuracy on labelled images, with a report",
    "check": "what the photos say of themselves: wrong labels, copies, confusions, accuracy to expect",
    "suggest": "which of many unlabelled photos to label next",
    "explain": "where an image looks like a class, as a heat map",
    "export": "a classifier as one ONNX file, which runs without PyTorch",
    "serve": "a page to make classifiers by dropping photos, and an HTTP API",
    "demo": "train and test on handwritten digits, in about three minutes",
    "pretrain": "stage 1: train a base network on base classes",
    "evaluate": "few-shot accuracy of a base network on novel classes",
    "reproduce": "a table or the figure of the paper, beside ours, and what it claims",
    "bench": "speed and memory against the usual way, on this machine",
    "info": "what a checkpoint holds, and the recipes",
}

SPELLED = {"±": "+-", "—": "-", "…": "...", "\N{MULTIPLICATION SIGN}": "x", "→": "->"}
"""What a character becomes where it cannot be written; others are escaped."""

LONGEST = 200
"""Letters of a word that a message shows whole; only paths are longer."""


def usage() -> str:
    """What `implanting --help` prints."""
    verbs = "\n".join(f"  {verb:<10} {about}" for verb, about in VERBS.items())
    return (
        "usage: implanting VERB [options]\n\n"
        "Few-shot image classification by dense classification and implanting.\n\n"
        f"{verbs}\n\n"
        "`implanting VERB --help` shows the options of a command. Start with `implanting demo`."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and give the exit status."""
    prepare_streams()
    follow_launcher()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            return run(given)
        finally:
            sys.stdout.flush()  # here, where what goes wrong can still be told
    except ImplantingError as error:
        return refuse(str(error))
    except BrokenPipeError:  # as when the output goes to `head`
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
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough; what is left is only to tidy up
        if _leads():
            print("implanting: stopped", file=sys.stderr, flush=True)
        return STOPPED


def out_of_memory(error: BaseException) -> str:
    """What to tell of a lack of memory, and what would need less."""
    asked = re.search(r"[Uu]nable to allocate ([\d.]+ \w+)|allocate (\d+) bytes", str(error))
    size = (
        ""
        if asked is None
        else f" for {(asked[1] or '').replace('. ', ' ') or f'{int(asked[2]) / 2**30:.1f} GiB'} more"
    )
    return (
        f"there is not enough memory{size}: close other programs, or ask for less (fewer --workers, smaller images by "
        "--image-size, fewer classes or --queries at once, --half where there is that flag)"
    )


def _leads() -> bool:
    """Whether this process is the only one, or the first of those that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def run(given: list[str]) -> int:
    """The verb's own exit status."""
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
    return int(module_of(verb).main(rest))


def module_of(verb: str) -> ModuleType:
    """Where a verb lives.

    What imports make stays until the process ends. So the garbage collector need not look at it, neither now nor at the
    end, which spares a short command a quarter of its time.
    """
    gc.disable()
    try:
        return import_module(f"implanting.cli.verbs.{verb}")
    finally:
        gc.enable()
        gc.freeze()
        if getattr(signal.getsignal(signal.SIGINT), "__name__", "") == "stop_at_once":
            signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on there may be things to tidy up


def refuse(message: str) -> int:
    """Tell the user what to mend; where all of several processes find it, the first speaks for them."""
    if not _leads():
        time.sleep(LATER)
    print(f"implanting: {one_line(with_flags(message))}", file=sys.stderr)
    return 2


def with_flags(message: str) -> str:
    """A message of the library with the settings that it names in backticks as the flags of this command line."""
    return re.sub(r"`([a-z][a-z0-9_]*)`", lambda setting: f"--{setting[1].replace('_', '-')}", message)


def prepare_streams() -> None:
    """Let nothing that is printed fail for its letters, nor for a stream that was closed before we began."""
    codecs.register_error("implanting.spell", spell)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 (open to the end)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="implanting.spell")
    warnings.formatwarning = lambda message, *_, **__: f"warning: {one_line(with_flags(str(message)))}\n"
    # An image that Pillow warns of is still below our limit, and above it we refuse it ourselves.
    warnings.filterwarnings("ignore", "Image size .* could be decompression bomb", RuntimeWarning)


def spell(error: UnicodeError) -> tuple[str, int]:
    """What stands for letters that the stream's encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    spelled = [SPELLED.get(letter, letter.encode("ascii", "backslashreplace").decode()) for letter in letters]
    return "".join(spelled), error.end


def _abandon_output() -> None:
    """Send what is left in standard output's buffer nowhere, else Python fails with it at its very end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def one_line(text: str) -> str:
    """A message as one line: control characters escaped, and words as long as only paths are cut in the middle."""
    printable = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return re.sub(rf"\S{{{LONGEST + 1},}}", _cut, printable)


def _cut(match: re.Match[str]) -> str:
    half = LONGEST // 2
    return f"{match[0][:half]}...{match[0][-half:]}"
