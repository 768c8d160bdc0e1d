"""The output of commands: progress on stderr, a table or one JSON document on stdout.

Names of files and classes are not trusted, and terminals obey control characters. Everything printed here is therefore
escaped, and a cell of a csv file never begins like a spreadsheet formula.
"""

import dataclasses
import json
import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress
from rich.table import Table
from rich.text import Text

from implanting.runtime import rank
from implanting.version import __version__

Item = TypeVar("Item")

PLAIN_INTERVAL = 15.0
"""Seconds between lines of progress if stderr is not a terminal."""


FORMULA = re.compile(r"\s*[=+\-@]")
"""Initial characters of a cell that make a spreadsheet treat it as a formula."""

UNLIMITED = 10_000
"""Columns of a table that no terminal shows: its lines are not folded, so that programs find whole names."""

NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?", re.I)


def plain(text: str) -> str:
    """Escape the control characters of a name, including line ends, as in Python: `a\\x1b[31mb`."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(letter: str) -> str:
    # Spaces of other widths and joined emoji are harmless, although Python does not consider them printable.
    if letter in UNDECODED:
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter if letter.isprintable() or letter in KEPT else repr(letter)[1:-1]


UNDECODED = frozenset(map(chr, range(0xDC80, 0xDD00)))
"""The surrogates by which Python represents bytes of a file name that are not UTF-8; they are shown as those bytes."""


KEPT = frozenset("\u00a0\u2002\u2003\u2009\u200d\u202f\u3000")
"""Characters that Python does not consider printable, but that only take up space or join others."""


def plain_lines(text: str) -> str:
    """Escape the control characters of a text, but keep its line ends."""
    return text if text.isprintable() else "\n".join(map(plain, text.split("\n")))


def cell(text: str) -> str:
    """Make a name safe as a cell of a csv file: harmless in a terminal, and not a formula in a spreadsheet.

    An apostrophe is put before anything that a spreadsheet would compute; numbers are not changed.
    """
    shown = plain(text)
    return f"'{shown}" if FORMULA.match(shown) and not NUMBER.fullmatch(shown) else shown


def say(text: str) -> None:
    """Print a line on stderr, from the first process only."""
    if rank() == 0:
        print(plain_lines(text), file=sys.stderr, flush=True)


@contextmanager
def telling_warnings(*kinds: type[Warning]) -> Iterator[None]:
    """Print warnings of these kinds as lines on stderr, each once."""
    with warnings.catch_warnings(record=True) as caught:
        for kind in kinds:
            warnings.simplefilter("always", kind)
        yield
    for one in {str(warning.message): warning for warning in caught}.values():
        say(warnings.formatwarning(one.message, one.category, one.filename, one.lineno).rstrip())


def show_progress(items: Iterable[Item], description: str, total: int) -> Iterable[Item]:
    """Show a progress bar on stderr or, if that is not a terminal, a line now and then."""
    console = Console(stderr=True)
    if rank() != 0:
        return items
    if not console.is_terminal:
        return _progress_in_lines(items, description, total)
    return _tracked(items, description, total, console)


def _tracked(items: Iterable[Item], description: str, total: int, console: Console) -> Iterator[Item]:
    """Show progress as a bar that disappears at the end."""
    with Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=console, transient=True) as progress:
        yield from progress.track(items, total=total, description=description)


def _progress_in_lines(items: Iterable[Item], description: str, total: int) -> Iterator[Item]:
    """Show progress as lines; work that ends before the first line is due prints none."""
    began = said = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if now - said > PLAIN_INTERVAL and done:
            said = now
            say(f"{description}: {done} of {total}, {(now - began) * (total / done - 1) / 60:.1f} min left")
        yield item


def print_json(
    settings: Mapping[str, Any], seconds: float, results: Sequence[Mapping[str, Any]], **further: Any
) -> None:
    """Print the results as one JSON document, the last line of stdout."""
    print_document(result_document(settings, seconds, results, **further))


def result_document(
    settings: Mapping[str, Any], seconds: float, results: Sequence[Mapping[str, Any]], **further: Any
) -> dict[str, Any]:
    """Make the JSON document with the entries common to all commands."""
    document = {"settings": settings, "code_version": __version__, "seed": settings.get("seed"), "seconds": seconds}
    return {**document, "results": list(results), **further}


def print_document(document: Mapping[str, Any]) -> None:
    """Print a JSON document as the last line of stdout."""
    if rank() == 0:
        print(json.dumps(document, default=_as_json), flush=True)


def _as_json(value: Any) -> Any:
    """Convert a value that JSON cannot represent: a dataclass to its fields, anything else, such as a path, to text."""
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else str(value)


def print_text(text: str) -> None:
    """Print text on stdout."""
    if rank() == 0:
        print(plain_lines(text))


def print_bytes(line: bytes) -> None:
    """Write a line to stdout unchanged and at once, for programs that read it."""
    if rank() == 0:
        sys.stdout.flush()
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def print_row(cells: Sequence[str], widths: Sequence[int]) -> None:
    """Print one row of a table that is printed as it is made; the last cell may have any width."""
    if rank() == 0:
        *first, last = map(plain, cells)
        padded = [text + " " * (width - cell_len(text)) for text, width in zip(first, widths, strict=True)]
        print(f"│ {' │ '.join([*padded, last])}", flush=True)


def shown_width(text: str) -> int:
    """Return the width of a text in terminal columns."""
    return cell_len(plain(text))


def answers_are_watched() -> bool:
    """Whether stdout is a terminal, so that the answers themselves show the progress."""
    return sys.stdout.isatty()


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", figures: bool = True
) -> None:
    """Print a table on stdout, as wide as the terminal; as wide as its names if stdout is a file or a program.

    All columns but the first are aligned at the right if there are two or more of them and they hold `figures`; a
    single one, if it holds whole numbers.
    """
    cells = [[plain_lines(text) for text in row] for row in rows]
    table = Table(show_header=any(columns))
    for number, column in enumerate(columns):
        right = number > 0 and ((figures and len(columns) > 2) or all(row[number].isdecimal() for row in cells))
        table.add_column(
            Text(plain_lines(column)), justify="right" if right else "left", overflow="fold"
        )  # a truncated name would be useless
    for row in cells:
        table.add_row(*map(Text, row))
    if rank() == 0:
        console = Console()
        console.print(
            Text(plain_lines(title), style="table.title"), soft_wrap=True
        )  # otherwise it would be cut to the table's width
        (console if console.is_terminal else Console(width=UNLIMITED)).print(table)
        if caption:
            console.print(Text(plain_lines(caption)))
