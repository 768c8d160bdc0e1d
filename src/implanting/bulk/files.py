"""Files of rows that are complete or absent, and that two runs never write at once.

Rows go to `.NAME.partial`, which is locked while a run writes it and is renamed when all rows are in it. A file left by
a killed run is no longer locked, and the next run starts it again.
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

from implanting.bulk.rows import Row, columns
from implanting.console import cell
from implanting.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    import pyarrow

try:
    import fcntl
except ImportError:  # Windows has no such locks: two runs of one shard are not detected there
    fcntl = None  # type: ignore[assignment]

ROWS_AT_ONCE = 8192
"""Number of rows per Parquet row group."""

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


def write_rows(path: Path, rows: Iterable[Row], top: int = 1) -> None:
    """Write the rows as they come; the file appears once it is complete."""
    with _claimed(path) as file:
        writer = FORMATS[row_format(path)](file, columns(top))
        for row in rows:
            writer.write(row)
        writer.close()


def _open_partial(partial: Path) -> int:
    """Open the partial file; its name is predictable so that runs can detect each other, and links are not followed."""
    try:
        return os.open(partial, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        raise ConfigError(
            f"{partial} cannot be written ({error.strerror}): remove it, or choose another file"
        ) from error


@contextmanager
def _claimed(path: Path) -> Iterator[BinaryIO]:
    """Lock the partial file for this run."""
    partial = path.with_name(f".{path.name}.partial")
    taken = ConfigError(f"{path} is being written by another run: wait for it, or choose another shard or file")
    with os.fdopen(_open_partial(partial), "r+b") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not partial.exists() or not os.path.samestat(partial.stat(), os.fstat(file.fileno())):
                raise taken  # the other run has just finished
        except BlockingIOError:
            raise taken from None
        try:
            file.truncate()
            yield file
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def read_images(path: Path) -> list[str] | None:
    """Read the names of the images in a file of rows, spelled as `write_rows` does; None if the file is truncated."""
    try:
        return _READERS[path.suffix](path)
    except (ValueError, KeyError, TypeError):  # pyarrow's errors are ValueErrors too
        return None


def spelled(image: str, suffix: str) -> str:
    """Spell the name of an image as a file of this format does."""
    if suffix == ".csv":
        return str(_csv_cell(image))
    return str(_parquet_value(image)) if suffix == ".parquet" else image


def _images_of_json_lines(path: Path) -> list[str]:
    content = path.read_bytes()
    _require_whole_lines(content)
    return [json.loads(line)["image"] for line in content.splitlines()]


def _images_of_csv(path: Path) -> list[str]:
    content = path.read_bytes()
    _require_whole_lines(content)
    lines = csv.DictReader(io.StringIO(content.decode("utf-8", "surrogateescape"), newline=""))
    return [line["image"] for line in lines]


def _require_whole_lines(content: bytes) -> None:
    if content and not content.endswith(b"\n"):
        raise ValueError("the last line is cut off")


def _images_of_parquet(path: Path) -> list[str]:
    images: list[str] = parquet_library().parquet.read_table(path, columns=["image"])["image"].to_pylist()
    return images


_READERS = {".jsonl": _images_of_json_lines, ".csv": _images_of_csv, ".parquet": _images_of_parquet}
