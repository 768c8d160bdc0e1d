"""Standard output and error as they may be: closed, full, ASCII only, or read by something that has gone away."""

import codecs
import io
import os
import re
import sys
import warnings

SPELLED = {"±": "+-", "—": "-", "…": "...", "\N{MULTIPLICATION SIGN}": "x", "→": "->"}
"""What a character becomes where it cannot be written; others are escaped."""

LONGEST = 200
"""Letters of a word that a message shows whole; only paths are longer."""


def prepare_streams() -> None:
    """Let nothing that is printed fail for its letters, nor for a stream that was closed before we began."""
    codecs.register_error("implanting.spell", spell)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 (open to the end)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="implanting.spell")
    warnings.formatwarning = lambda message, *_, **__: f"warning: {one_line(str(message))}\n"
    # An image that Pillow warns of is still below our limit, and above it we refuse it ourselves.
    warnings.filterwarnings("ignore", "Image size .* could be decompression bomb", RuntimeWarning)


def spell(error: UnicodeError) -> tuple[str, int]:
    """What stands for letters that the stream's encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    spelled = [SPELLED.get(letter, letter.encode("ascii", "backslashreplace").decode()) for letter in letters]
    return "".join(spelled), error.end


def abandon_output() -> None:
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
