"""Files of rows that are complete or absent, and that two runs never write at once.

A run holds the lock of `.NAME.lock` while it writes, and the rows go through the project's one atomic writer. A killed
run leaves the empty file of its lock behind, which the next run takes over.
"""

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from implanting.bulk.rows import COLUMNS, Row, columns
from implanting.console import cell
from implanting.errors import ConfigError, MissingExtra
from implanting.runtime import open_file, parse_json, replacing

if TYPE_CHECKING:
    import pyarrow

try:
    import fcntl
except ImportError:  # Windows has no such locks: two runs of one shard are not detected there
    fcntl = None  # type: ignore[assignment]

ROWS_AT_ONCE = 8192
"""Number of rows per Parquet row group."""

LONGEST_LINE = 2**20
"""Bytes of a first line by which answers are recognised."""

FAULTS = (OSError, ValueError, KeyError, TypeError, NotImplementedError)
"""What reading a file raises that is not of its format; pyarrow's own faults are among them."""

UNDECODED = re.compile("([\udc80-\udcff]+)")
"""The surrogates by which Python represents bytes of a file name that are not UTF-8."""


class RowWriter(Protocol):
    """Writes rows to an open file; `close` writes the remaining rows but leaves the file open."""

    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...


def json_line(row: Row) -> bytes:
    """Format a row as one line of JSON; names that are not UTF-8 are escaped such that Python can restore them."""
    return json.dumps(row).encode("ascii") + b"\n"


def csv_line(values: Iterable[Any]) -> bytes:
    """Format values as a line of CSV in UTF-8; bytes of names that are not UTF-8 are kept unchanged."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([_csv_cell(value) for value in values])
    return text.getvalue().encode("utf-8", "surrogateescape")


def _csv_cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}"
    if not isinstance(value, str):
        return value
    first, *rest = UNDECODED.split(value)
    return cell(first) + "".join(part if UNDECODED.match(part) else cell(f"x{part}")[1:] for part in rest)


class _JsonLines:
    def __init__(self, file: BinaryIO, _: Sequence[str]) -> None:
        self.file = file

    def write(self, row: Row) -> None:
        self.file.write(json_line(row))

    def close(self) -> None: ...


class _Csv:
    def __init__(self, file: BinaryIO, names: Sequence[str]) -> None:
        self.file = file
        file.write(csv_line(names))

    def write(self, row: Row) -> None:
        self.file.write(csv_line(row.values()))

    def close(self) -> None: ...


class _Parquet:
    def __init__(self, file: BinaryIO, names: Sequence[str]) -> None:
        self.rows: list[Row] = []
        self.names = names
        self.writer = parquet_library().parquet.ParquetWriter(file, _schema(names))

    def write(self, row: Row) -> None:
        self.rows.append(row)
        if len(self.rows) == ROWS_AT_ONCE:
            self._write_group()

    def _write_group(self) -> None:
        self.writer.write_table(_table(self.rows, self.names))
        self.rows = []

    def close(self) -> None:
        if self.rows:
            self._write_group()
        self.writer.close()


def arrow_table(rows: Sequence[Row], top: int = 1) -> "pyarrow.Table":
    """Convert rows to an Arrow table, whose columns have the same types in every table."""
    return _table(rows, columns(top))


def _table(rows: Sequence[Row], names: Sequence[str]) -> "pyarrow.Table":
    plain = [{name: _parquet_value(value) for name, value in row.items()} for row in rows]
    return parquet_library().Table.from_pylist(plain, _schema(names))


def _schema(names: Sequence[str]) -> Any:
    arrow = parquet_library()
    numbers = [name for name in names if "probability" in name or name == "open_set_score"]
    return arrow.schema([(name, arrow.float32() if name in numbers else arrow.string()) for name in names])


def _parquet_value(value: Any) -> Any:
    """Convert labels and names to text, which must be UTF-8: other bytes become escapes such as `\\xe9`."""
    if value is None or isinstance(value, float):
        return value
    return os.fsencode(str(value)).decode("utf-8", "backslashreplace")


def parquet_library() -> Any:
    """Import pyarrow, which is large and needed for Parquet only."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("Parquet needs pyarrow: pip install 'implanting[parquet]'") from error
    return pyarrow


FORMATS: dict[str, Callable[[BinaryIO, Sequence[str]], RowWriter]] = {
    ".jsonl": _JsonLines,
    ".csv": _Csv,
    ".parquet": _Parquet,
}
"""The writers of rows, by file extension."""


def row_format(path: Path) -> str:
    """Return the extension, which sets the format; a path that cannot be written is an error."""
    if path.suffix not in FORMATS:
        raise ConfigError(f"`out` {path}: the name must end in {', '.join(FORMATS)}, which says the format")
    if path.suffix == ".parquet":
        parquet_library()
    if not path.parent.is_dir():
        raise ConfigError(f"`out` {path}: there is no folder {path.parent}; create it first")
    return path.suffix


def holds_answers(path: Path) -> bool:
    """Whether a file has the columns of answers, as those have that `write_rows` made, whole or cut off."""
    try:
        return _FIRST_COLUMNS[path.suffix](path)[: len(COLUMNS)] == list(COLUMNS)
    except FAULTS:
        return False


def write_rows(path: Path, rows: Iterable[Row], top: int = 1) -> None:
    """Write the rows as they come; the file is there when all of them are."""
    ending = row_format(path)
    with _claimed(path), replacing(path) as file:
        writer = FORMATS[ending](file, columns(top))
        for row in rows:
            writer.write(row)
        writer.close()


def _open_lock(lock: Path) -> int:
    """The lock has a known name, since runs find each other by it; nothing is ever written there."""
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        raise ConfigError(f"{lock} cannot be locked ({error.strerror}): remove it, or choose another file") from error


@contextmanager
def _claimed(path: Path) -> Iterator[None]:
    """The right to write a file, for this run alone."""
    lock = path.with_name(f".{path.name}.lock")
    taken = ConfigError(f"{path} is being written by another run: wait for it, or choose another shard or file")
    descriptor = _open_lock(lock)
    try:
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not lock.exists() or not os.path.samestat(lock.stat(), os.fstat(descriptor)):
                raise taken  # the other run has finished in this very moment
        except BlockingIOError:
            raise taken from None
        try:
            yield
        finally:
            if os.fstat(descriptor).st_size == 0:  # else it is somebody's file of that name
                lock.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def read_images(path: Path) -> list[str] | None:
    """Read the names of the images in a file of rows, spelled as `write_rows` does; None if the file is truncated."""
    try:
        return _READERS[path.suffix](path)
    except FAULTS:
        return None


def _columns_of_json_lines(path: Path) -> list[str]:
    with open_file(path) as file:
        return list(parse_json(file.readline(LONGEST_LINE)))


def _columns_of_csv(path: Path) -> list[str]:
    with open_file(path) as file:
        return file.readline(LONGEST_LINE).decode().rstrip("\n").split(",")


def _columns_of_parquet(path: Path) -> list[str]:
    with open_file(path) as file:
        names: list[str] = parquet_library().parquet.read_schema(file).names
    return names


_FIRST_COLUMNS = {".jsonl": _columns_of_json_lines, ".csv": _columns_of_csv, ".parquet": _columns_of_parquet}


def spelled(image: str, suffix: str) -> str:
    """Spell the name of an image as a file of this format does."""
    if suffix == ".csv":
        return str(_csv_cell(image))
    return str(_parquet_value(image)) if suffix == ".parquet" else image


def _images_of_json_lines(path: Path) -> list[str]:
    content = _whole_lines(path)
    return [json.loads(line)["image"] for line in content.splitlines()]


def _images_of_csv(path: Path) -> list[str]:
    content = _whole_lines(path)
    lines = csv.DictReader(io.StringIO(content.decode("utf-8", "surrogateescape"), newline=""))
    return [line["image"] for line in lines]


def _whole_lines(path: Path) -> bytes:
    with open_file(path) as file:
        content = file.read()
    if content and not content.endswith(b"\n"):
        raise ValueError("the last line is cut off")
    return content


def _images_of_parquet(path: Path) -> list[str]:
    with open_file(path) as file:
        images: list[str] = parquet_library().parquet.read_table(file, columns=["image"])["image"].to_pylist()
    return images


_READERS = {".jsonl": _images_of_json_lines, ".csv": _images_of_csv, ".parquet": _images_of_parquet}
