"""Projects, classes and photos on disk: SQLite for records, one file per photo, and a log of changes to undo.

A change is on disk before it is acknowledged: the file of a photo is written and synchronised first, then its record is
committed with `synchronous=FULL`. So a record never lacks its file, and a file without a record (a process was killed
between the two) is swept away at the next start. Nothing is deleted by a change: rows are marked as removed, and the
log holds what every row was before, which is all that undo needs.

One server at a time: the database is locked for as long as it is open, and the system lets go of it however the process
ends.
"""

import json
import os
import secrets
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from implanting.errors import ConfigError, DataError
from implanting.images import decode
from implanting.serve.pictures import Picture, thumbnail

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

LONGEST_NAME = 200

Row = dict[str, Any]


class Missing(DataError):
    """There is no such project, class or photo."""


class Conflict(ConfigError):
    """The request does not fit the present state."""


@dataclass(frozen=True)
class Changed:
    """A row as it was and as it is: enough to go back and forth."""

    table: str
    id: int
    before: Row
    after: Row


class Store:
    """All projects of one data folder; every method may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self.photos = folder / "photos"
        self.thumbnails = folder / "thumbnails"
        for path in (folder, self.photos, self.thumbnails):
            _make_folder(path)
        self._database = _open(folder)
        self._sweep()

    def close(self) -> None:
        """Let go of the data folder."""
        with self._lock:
            self._database.close()

    # Reading

    def projects(self) -> list[Row]:
        """All projects with their numbers of classes and photos, the latest changed first; removed ones too."""
        return self._rows(
            """SELECT projects.*,
            (SELECT count(*) FROM classes WHERE project = projects.id AND NOT classes.removed) AS classes,
            (SELECT count(*) FROM photos WHERE project = projects.id AND NOT photos.removed) AS photos
            FROM projects ORDER BY changed DESC, id DESC"""
        )

    def project(self, project: int) -> Row:
        """One project that was not removed."""
        found = self._rows("SELECT * FROM projects WHERE id = ? AND NOT removed", project)
        if not found:
            raise Missing(f"there is no project {project}: open one of the list, or make one")
        return found[0]

    def state(self, project: int, since: int = 0) -> Row:
        """The project, its classes, and the photos that changed after the revision `since`, removed ones too."""
        with self._lock:
            return {
                "project": self.project(project),
                "classes": self.classes(project),
                "photos": self._rows(
                    "SELECT * FROM photos WHERE project = ? AND revision > ? AND NOT (removed AND ? = 0) ORDER BY id",
                    project,
                    since,
                    since,
                ),
                "undo": self._latest(project, "done"),
                "redo": self._latest(project, "undone"),
            }

    def classes(self, project: int) -> list[Row]:
        """The classes of a project, in the order in which they were made."""
        return self._rows("SELECT * FROM classes WHERE project = ? AND NOT removed ORDER BY id", project)

    def examples(self, project: int) -> list[tuple[int, int | None]]:
        """Every photo of a project with its class; None where it has no label."""
        with self._lock:
            query = "SELECT id, class FROM photos WHERE project = ? AND NOT removed ORDER BY id"
            return [(row["id"], row["class"]) for row in self._database.execute(query, (project,))]

    def photo(self, project: int, photo: int) -> Row:
        """One photo; one that was removed is still there for undo, and for a page that shows it."""
        found = self._rows("SELECT * FROM photos WHERE id = ? AND project = ?", photo, project)
        if not found:
            raise Missing(f"there is no photo {photo} in project {project}: load the list again")
        return found[0]

    def file(self, photo: Row) -> Path:
        """The path of its picture."""
        return self.photos / photo["file"][:2] / photo["file"]

    def thumbnail_path(self, photo: Row) -> Path:
        """The path of its thumbnail."""
        return self.thumbnails / photo["file"][:2] / f"{photo['file'].partition('.')[0]}.jpg"

    def thumbnail_of(self, photo: Row) -> bytes:
        """The thumbnail; made again where it was lost."""
        path = self.thumbnail_path(photo)
        try:
            if content := path.read_bytes():
                return content
        except FileNotFoundError:
            pass
        content = thumbnail(decode(self.file(photo)))
        path.write_bytes(content)
        return content

    # Changing

    def add_project(self, name: str) -> int:
        """A new project."""
        with self._writing():
            now = time.time()
            insert = "INSERT INTO projects (name, created, changed) VALUES (?, ?, ?)"
            return _id(self._database.execute(insert, (named(name, "project"), now, now)))

    def rename_project(self, project: int, name: str) -> None:
        """Another name for a project."""
        with self._writing():
            self._set_project(self.project(project)["id"], "name", named(name, "project"))

    def remove_project(self, project: int) -> None:
        """Out of the list; it can be restored."""
        with self._writing():
            self._set_project(self.project(project)["id"], "removed", 1)

    def restore_project(self, project: int) -> None:
        """Back into the list."""
        with self._writing():
            self._removed_project(project)
            self._set_project(project, "removed", 0)

    def delete_project(self, project: int) -> None:
        """A removed project with its photos, for good: records first, so that no record ever lacks its file."""
        with self._lock:
            self._removed_project(project)
            photos = self._rows("SELECT * FROM photos WHERE project = ?", project)
            with self._writing():
                self._database.execute(
                    "DELETE FROM readings WHERE photo IN (SELECT id FROM photos WHERE project = ?)", (project,)
                )
                for table in ("photos", "classes", "changes"):
                    self._database.execute(f"DELETE FROM {table} WHERE project = ?", (project,))  # noqa: S608 (our own names)
                self._database.execute("DELETE FROM projects WHERE id = ?", (project,))
        for photo in photos:
            self.file(photo).unlink(missing_ok=True)
            self.thumbnail_path(photo).unlink(missing_ok=True)

    def add_class(self, project: int, name: str) -> int:
        """A new class without photos."""
        with self._change(project) as change:
            name = self._new_class_name(project, name)
            insert = "INSERT INTO classes (project, name, revision) VALUES (?, ?, ?)"
            number = _id(self._database.execute(insert, (project, name, change.revision)))
            change.made("classes", number)
            change.about = f"new class {name}"
            return number

    def rename_class(self, project: int, number: int, name: str) -> None:
        """Another name for a class."""
        with self._change(project) as change:
            old = self._class(project, number)["name"]
            if old != name.strip():
                change.set("classes", number, name=self._new_class_name(project, name))
            change.about = f"{old} renamed"

    def remove_class(self, project: int, number: int) -> None:
        """A class and its photos."""
        with self._change(project) as change:
            old = self._class(project, number)
            change.set("classes", number, removed=1)
            for photo in self._rows("SELECT id FROM photos WHERE class = ? AND NOT removed", number):
                change.set("photos", photo["id"], removed=1)
            change.about = f"class {old['name']} removed"

    def add_photos(
        self, project: int, number: int | None, pictures: Sequence[Picture], group: str | None = None
    ) -> list[tuple[int, bool]]:
        """The photo of each picture, and whether it is new: what is there already, byte for byte, stays as it is.

        Files are written first, and the lock is taken for the records alone. Changes of one `group` are undone at once.
        """
        self.project(project)
        files: list[Path] = []
        added: list[tuple[int, bool]] = []
        try:
            files += (self._write(picture) for picture in pictures)
            _synchronise({path.parent for path in files})
            with self._change(project, group) as change:
                if number is not None:
                    self._class(project, number)
                added += (
                    self._add_photo(change, number, picture, file.name)
                    for picture, file in zip(pictures, files, strict=True)
                )
                change.about = "photos added"
        except BaseException:
            added.clear()
            raise
        finally:
            kept = [new for _, new in added] or [False] * len(files)
            for file, new in zip(files, kept, strict=True):
                if not new:
                    self._unlink(file)
        return added

    def _add_photo(self, change: "_Change", number: int | None, picture: Picture, file: str) -> tuple[int, bool]:
        same = self._rows(
            "SELECT id FROM photos WHERE project = ? AND digest = ? AND NOT removed", change.project, picture.digest
        )
        if same:
            return same[0]["id"], False
        insert = (
            "INSERT INTO photos (project, class, name, file, digest, width, height, revision)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        )
        values = (change.project, number, picture.name, file, picture.digest, picture.width, picture.height)
        photo = _id(self._database.execute(insert, (*values, change.revision)))
        change.made("photos", photo)
        return photo, True

    def add_records(self, project: int, named: Sequence[tuple[int | None, str]]) -> list[int]:
        """Photos of a class and a name without pictures, for measurements of large projects."""
        with self._change(project) as change:
            insert = (
                "INSERT INTO photos (project, class, name, file, digest, width, height, revision)"
                " VALUES (?, ?, ?, ?, ?, 1, 1, ?)"
            )
            photos = []
            for number, name in named:
                file = secrets.token_hex(16)
                values = (project, number, name, f"{file}.jpg", file, change.revision)
                photos.append(_id(self._database.execute(insert, values)))
                change.made("photos", photos[-1])
            change.about = "records added"
            return photos

    def move_photos(self, project: int, photos: Sequence[int], number: int | None) -> None:
        """Photos into a class, or out of all of them."""
        with self._change(project) as change:
            into = "unlabelled" if number is None else self._class(project, number)["name"]
            for photo in photos:
                self._present(project, photo)
                change.set("photos", photo, **{"class": number})
            change.about = f"{_counted(photos)} moved to {into}"

    def remove_photos(self, project: int, photos: Sequence[int]) -> None:
        """Photos out of the project."""
        with self._change(project) as change:
            for photo in photos:
                self._present(project, photo)
                change.set("photos", photo, removed=1)
            change.about = f"{_counted(photos)} removed"

    def undo(self, project: int) -> str:
        """Take the latest change back; gives what it was."""
        return self._travel(project, "done", "undone", lambda row: row.before)

    def redo(self, project: int) -> str:
        """Make the change again that was last taken back."""
        return self._travel(project, "undone", "done", lambda row: row.after)

    def _travel(self, project: int, now: str, then: str, side: Callable[[Changed], Row]) -> str:
        with self._writing():
            self.project(project)
            found = self._next_changes(project, now)
            if not found:
                raise Conflict(f"there is nothing to {'undo' if now == 'done' else 'redo'} in this project")
            revision = self._next_revision(project)
            for change in found:
                for row in (Changed(**row) for row in json.loads(change["rows"])):
                    _update(self._database, row.table, row.id, {**side(row), "revision": revision})
                self._database.execute("UPDATE changes SET state = ? WHERE id = ?", (then, change["id"]))
            return str(found[0]["about"])

    def _next_changes(self, project: int, state: str) -> list[Row]:
        """The change that would be undone or made again next, with the others of its group."""
        order = "DESC" if state == "done" else "ASC"
        query = f"SELECT * FROM changes WHERE project = ? AND state = ?{{}} ORDER BY id {order}"  # noqa: S608 (our own)
        found = self._rows(query.format("") + " LIMIT 1", project, state)
        if not found or found[0]["grouped"] is None:
            return found
        return self._rows(query.format(" AND grouped = ?"), project, state, found[0]["grouped"])

    # Readings: a cache, which any loss costs time only

    def readings(self, project: int, network: str) -> dict[int, bytes]:
        """The readings of the photos of a project by one network."""
        with self._lock:
            query = (
                "SELECT photo, reading FROM readings JOIN photos ON photos.id = photo"
                " WHERE photos.project = ? AND network = ?"
            )
            return {row["photo"]: row["reading"] for row in self._database.execute(query, (project, network))}

    def keep_readings(self, network: str, readings: dict[int, bytes]) -> None:
        """Keep what the network read."""
        with self._writing():
            rows = [(photo, network, reading) for photo, reading in readings.items()]
            self._database.executemany("INSERT OR REPLACE INTO readings VALUES (?, ?, ?)", rows)

    # Inside

    def _rows(self, query: str, *values: Any) -> list[Row]:
        with self._lock:
            return [dict(row) for row in self._database.execute(query, values)]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction: all of it is on disk when this ends, or none of it where it raises."""
        with self._lock:
            if self._database.in_transaction:  # a part of a larger one
                yield
                return
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    @contextmanager
    def _change(self, project: int, group: str | None = None) -> Iterator["_Change"]:
        """A change of a project that can be undone; what was undone before can no longer be made again."""
        with self._writing():
            self.project(project)
            change = _Change(self._database, project, self._next_revision(project))
            yield change
            if not change.rows:
                return
            self._database.execute(
                "UPDATE changes SET state = 'gone' WHERE project = ? AND state = 'undone'", (project,)
            )
            self._database.execute(
                "INSERT INTO changes (project, about, rows, grouped, at) VALUES (?, ?, ?, ?, ?)",
                (project, change.about, json.dumps([vars(row) for row in change.rows]), group, time.time()),
            )

    def _next_revision(self, project: int) -> int:
        self._database.execute(
            "UPDATE projects SET revision = revision + 1, changed = ? WHERE id = ?", (time.time(), project)
        )
        return int(self._rows("SELECT revision FROM projects WHERE id = ?", project)[0]["revision"])

    def _set_project(self, project: int, column: str, value: Any) -> None:
        self._next_revision(project)
        self._database.execute(f"UPDATE projects SET {column} = ? WHERE id = ?", (value, project))  # noqa: S608 (our own names)

    def _removed_project(self, project: int) -> None:
        if not self._rows("SELECT id FROM projects WHERE id = ? AND removed", project):
            raise Missing(f"there is no removed project {project}: remove it first, or load the list again")

    def _latest(self, project: int, state: str) -> str | None:
        order = "DESC" if state == "done" else "ASC"
        query = f"SELECT about FROM changes WHERE project = ? AND state = ? ORDER BY id {order} LIMIT 1"  # noqa: S608 (our own)
        found = self._rows(query, project, state)
        return found[0]["about"] if found else None

    def _class(self, project: int, number: int) -> Row:
        found = self._rows("SELECT * FROM classes WHERE id = ? AND project = ? AND NOT removed", number, project)
        if not found:
            raise Missing(f"there is no class {number} in project {project}: load the list again")
        return found[0]

    def _present(self, project: int, photo: int) -> None:
        if self.photo(project, photo)["removed"]:
            raise Missing(f"photo {photo} was removed from project {project}: load the list again, or undo")

    def _new_class_name(self, project: int, name: str) -> str:
        name = named(name, "class")
        if any(other["name"] == name for other in self.classes(project)):
            raise Conflict(f"there is a class {name!r} already: choose another name, or add photos to it")
        return name

    def _write(self, picture: Picture) -> Path:
        """The files of a picture under a name of our own, which nobody can guess or choose."""
        name = secrets.token_hex(16)
        path = self.photos / name[:2] / f"{name}{picture.suffix}"
        thumbnail = self.thumbnails / name[:2] / f"{name}.jpg"
        for folder in (path.parent, thumbnail.parent):
            _make_folder(folder)
        try:
            thumbnail.write_bytes(picture.thumbnail)  # can be made again, so that it need not be synchronised
            with path.open("xb") as file:
                file.write(picture.content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            self._unlink(path)
            raise
        return path

    def _unlink(self, path: Path) -> None:
        """Delete a picture that has no record, and its thumbnail."""
        path.unlink(missing_ok=True)
        (self.thumbnails / path.name[:2] / f"{path.stem}.jpg").unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Delete the files that never got their record."""
        known = {row["file"] for row in self._rows("SELECT file FROM photos")}
        for path in self.photos.glob("*/*"):
            if path.name not in known:
                self._unlink(path)


class _Change:
    """The rows that a change makes or alters, as it goes."""

    def __init__(self, database: sqlite3.Connection, project: int, revision: int) -> None:
        self._database, self.project, self.revision = database, project, revision
        self.rows: list[Changed] = []
        self.about = ""

    def made(self, table: str, number: int) -> None:
        """A new row; undo removes it."""
        self.rows.append(Changed(table, number, {"removed": 1}, {"removed": 0}))

    def set(self, table: str, number: int, **after: Any) -> None:
        """Other values for some columns of a row."""
        columns = ", ".join(f'"{column}"' for column in after)
        query = f"SELECT {columns} FROM {table} WHERE id = ?"  # noqa: S608 (our own names)
        before = dict(self._database.execute(query, (number,)).fetchone())
        if before == after:
            return
        _update(self._database, table, number, {**after, "revision": self.revision})
        self.rows.append(Changed(table, number, before, after))


def _update(database: sqlite3.Connection, table: str, number: int, values: Row) -> None:
    columns = ", ".join(f'"{column}" = ?' for column in values)
    database.execute(f"UPDATE {table} SET {columns} WHERE id = ?", (*values.values(), number))  # noqa: S608 (our own names)


def _open(folder: Path) -> sqlite3.Connection:
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
        raise ConfigError(f"{path} is not a database of ours ({error}): name another folder with `data`") from error
    if found > FORMAT:
        database.close()
        raise ConfigError(f"{path} was written by a newer version (format {found}): install that version")
    return database


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the folder {path} cannot be made ({error.strerror}): choose another with `data`") from error


def _synchronise(folders: set[Path]) -> None:
    """Bring the names of new files to disk, where the system has folders that can be opened."""
    for folder in folders if os.name == "posix" else ():
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def named(name: str, what: str) -> str:
    """A name that can be shown and kept."""
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or not seemly(name):
        raise DataError(
            f"the name of a {what} has {len(name)} letters{'' if seemly(name) else ', control characters among them'}; "
            f"needed are 1 to {LONGEST_NAME} letters, digits or signs: choose another"
        )
    return name


def seemly(text: str) -> bool:
    """Whether a text can be kept and shown: no control characters, line breaks or halves of letters."""
    return not any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in text)


def _id(cursor: sqlite3.Cursor) -> int:
    return int(cursor.lastrowid or 0)


def _counted(photos: Sequence[int]) -> str:
    return f"{len(photos)} photo{'s' * (len(photos) != 1)}"
