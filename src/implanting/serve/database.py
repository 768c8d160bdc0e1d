"""The database of one data folder: SQLite, locked for as long as it is open, with every transaction on disk at its end.

One server at a time: the system releases the lock however the process ends.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from implanting.errors import ConfigError

FORMAT = 1
"""Number of the database's format."""

SCHEMA = """
CREATE TABLE projects (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, revision INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, changed REAL NOT NULL
);
CREATE TABLE classes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, project INTEGER NOT NULL REFERENCES projects(id), name TEXT NOT NULL,
    removed INTEGER NOT NULL DEFAULT 0, revision INTEGER NOT NULL
);
CREATE TABLE photos (
    id INTEGER PRIMARY KEY AUTOINCREMENT, project INTEGER NOT NULL REFERENCES projects(id),
    class INTEGER REFERENCES classes(id), name TEXT NOT NULL, file TEXT NOT NULL UNIQUE, digest TEXT NOT NULL,
    width INTEGER NOT NULL, height INTEGER NOT NULL, removed INTEGER NOT NULL DEFAULT 0, revision INTEGER NOT NULL
);
CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, project INTEGER NOT NULL REFERENCES projects(id), about TEXT NOT NULL,
    rows TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'done', grouped TEXT, at REAL NOT NULL
);
CREATE TABLE readings (
    photo INTEGER NOT NULL, network TEXT NOT NULL, reading BLOB NOT NULL, PRIMARY KEY (photo, network)
);
CREATE INDEX photos_by_revision ON photos (project, revision);
CREATE INDEX photos_by_digest ON photos (project, digest);
CREATE INDEX changes_by_project ON changes (project, state, id);
"""

Row = dict[str, Any]


class Database:
    """A connection that every thread may use; `lock` is held for as long as several calls belong together."""

    def __init__(self, folder: Path) -> None:
        self.lock = threading.RLock()
        self._connection = _open_database(folder)

    def close(self) -> None:
        """Release the folder."""
        with self.lock:
            self._connection.close()

    def rows(self, query: str, *values: Any) -> list[Row]:
        """The rows of a query."""
        with self.lock:
            return [dict(row) for row in self._connection.execute(query, values)]

    def insert(self, statement: str, *values: Any) -> int:
        """Insert a row, and return its number."""
        return int(self._connection.execute(statement, values).lastrowid or 0)

    def execute(self, statement: str, *values: Any) -> None:
        """Run a statement without a result."""
        self._connection.execute(statement, values)

    def execute_many(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        """Run a statement for each of many rows."""
        self._connection.executemany(statement, rows)

    def update(self, table: str, number: int, values: Row) -> None:
        """Set columns of one row; table and columns are names of the schema, never a client's."""
        columns = ", ".join(f'"{column}" = ?' for column in values)
        self.execute(f"UPDATE {table} SET {columns} WHERE id = ?", *values.values(), number)  # noqa: S608 (our own names)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction: all of it is on disk when this ends, or none of it if it raises."""
        with self.lock:
            if self._connection.in_transaction:  # a part of a larger one
                yield
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _open_database(folder: Path) -> sqlite3.Connection:
    path = folder / "projects.sqlite"
    database = sqlite3.connect(path, timeout=0.5, isolation_level=None, check_same_thread=False)
    database.row_factory = sqlite3.Row
    try:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("BEGIN EXCLUSIVE")
        found = database.execute("PRAGMA user_version").fetchone()[0]
        if found == 0:
            for statement in SCHEMA.split(";"):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {FORMAT}")
        database.execute("COMMIT")
    except sqlite3.OperationalError as error:
        database.close()
        if "locked" not in str(error):
            raise ConfigError(f"{path} cannot be opened ({error}): check the folder and its free space") from error
        raise ConfigError(
            f"`data` {folder} is in use by another server: use that one, stop it, or name another folder"
        ) from error
    except sqlite3.DatabaseError as error:
        database.close()
        raise ConfigError(
            f"{path} is not a database of this program ({error}): name another folder with `data`"
        ) from error
    if found > FORMAT:
        database.close()
        raise ConfigError(f"{path} was written by a newer version (format {found}): install that version")
    return database
