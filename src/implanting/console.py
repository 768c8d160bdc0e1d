"""What a person sees of a command: progress on stderr, a table or one JSON document on stdout.

Names of files and classes come from anywhere, and a terminal obeys control characters. So whatever is printed here
shows them escaped, and a cell of a csv file never begins like a spreadsheet's formula.
"""

import dataclasses
import json
import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress
from rich.table import Table
from rich.text import Text

from implanting.runtime import rank
from implanting.version import __version__

Item = TypeVar("Item")

PLAIN_INTERVAL = 15.0
"""Seconds between lines of progress where stderr is no terminal."""


FORMULA = re.compile(r"\s*[=+\-@]")
"""What a cell begins with that a spreadsheet computes when it opens the file."""

NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?", re.I)


def plain(text: str) -> str:
    """A name with its control characters, line ends among them, escaped as in Python: `a\\x1b[31mb`."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(letter: str) -> str:
    # Spaces of other widths and joined emoji are no danger, though Python does not call them printable.
    return letter if letter.isprintable() or letter in KEPT else repr(letter)[1:-1]


KEPT = frozenset("\u00a0\u2002\u2003\u2009\u200d\u202f\u3000")
"""Letters that Python does not call printable, and that only take up room or join others."""


def plain_lines(text: str) -> str:
    """The same for a text of several lines, whose line ends stay."""
    return text if text.isprintable() else "\n".join(map(plain, text.split("\n")))


def cell(text: str) -> str:
    """A name as a cell of a csv file: harmless in a terminal, and text, not a formula, in a spreadsheet.

    An apostrophe goes before what would be computed; numbers stay as they are.
    """
    shown = plain(text)
    return f"'{shown}" if FORMULA.match(shown) and not NUMBER.fullmatch(shown) else shown


def say(text: str) -> None:
    """A line on stderr, from one process only."""
    if rank() == 0:
        print(plain_lines(text), file=sys.stderr, flush=True)


@contextmanager
def telling_warnings(*kinds: type[Warning]) -> Iterator[None]:
    """Warnings of these kinds as lines on stderr, each once."""
    with warnings.catch_warnings(record=True) as caught:
        for kind in kinds:
            warnings.simplefilter("always", kind)
        yield
    for told in {str(warning.message): warning for warning in caught}.values():
        say(warnings.formatwarning(told.message, told.category, told.filename, told.lineno).rstrip())


def show_progress(items: Iterable[Item], description: str, total: int) -> Iterable[Item]:
    """A progress bar on stderr; where that is no terminal, a line now and then."""
    console = Console(stderr=True)
    if rank() != 0:
        return items
    if not console.is_terminal:
        return _told_by_lines(items, description, total)
    return _tracked(items, description, total, console)


def _tracked(items: Iterable[Item], description: str, total: int, console: Console) -> Iterator[Item]:
    """Progress as a bar that goes away at the end."""
    with Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=console, transient=True) as progress:
        yield from progress.track(items, total=total, description=description)


def _told_by_lines(items: Iterable[Item], description: str, total: int) -> Iterator[Item]:
    """Progress as lines; what is done sooner than the first would come is not worth one."""
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
    """The JSON document that is the last line of stdout."""
    print_document(result_document(settings, seconds, results, **further))


def result_document(
    settings: Mapping[str, Any], seconds: float, results: Sequence[Mapping[str, Any]], **further: Any
) -> dict[str, Any]:
    """What every command tells of its results."""
    document = {"settings": settings, "code_version": __version__, "seed": settings.get("seed"), "seconds": seconds}
    return {**document, "results": list(results), **further}


def print_document(document: Mapping[str, Any]) -> None:
    """One JSON document as the last line of stdout."""
    if rank() == 0:
        print(json.dumps(document, default=_as_json), flush=True)


def _as_json(value: Any) -> Any:
    """What JSON has no word for: a dataclass as its fields, anything else, such as a path, as text."""
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else str(value)


def print_text(text: str) -> None:
    """Text on stdout."""
    if rank() == 0:
        print(plain_lines(text))


def print_bytes(line: bytes) -> None:
    """A line on stdout as it is and at once, for programs that read it."""
    if rank() == 0:
        sys.stdout.flush()
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def print_row(cells: Sequence[str], widths: Sequence[int]) -> None:
    """A row of a table that is printed while it is made; the last cell may be of any width."""
    if rank() == 0:
        *first, last = map(plain, cells)
        padded = [text + " " * (width - cell_len(text)) for text, width in zip(first, widths, strict=True)]
        print(f"│ {' │ '.join([*padded, last])}", flush=True)


def shown_width(text: str) -> int:
    """The columns that a text takes in a terminal."""
    return cell_len(plain(text))


def answers_are_watched() -> bool:
    """Whether a person sees stdout as it comes: then it shows the progress itself."""
    return sys.stdout.isatty()


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> None:
    """A table on stdout."""
    table = Table(show_header=any(columns))
    for number, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if number and len(columns) > 2 else "left"
        table.add_column(
            Text(plain_lines(column)), justify=justify, overflow="fold"
        )  # a name that is cut off is no name
    for row in rows:
        table.add_row(*(Text(plain_lines(text)) for text in row))
    if rank() == 0:
        console = Console()
        console.print(
            Text(plain_lines(title), style="table.title"), soft_wrap=True
        )  # else it would be cut to the table's width
        console.print(table)
        if caption:
            console.print(Text(plain_lines(caption)))
