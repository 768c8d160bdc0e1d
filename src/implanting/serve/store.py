"""Projects, classes and photos on disk: SQLite for records, one file per photo, and a log of changes to undo.

A change is on disk before it is acknowledged: the file of a photo is written and synchronised first, then its record is
committed with `synchronous=FULL`. So a record never lacks its file, and a file without a record (a process was killed
between the two, or the file of a deleted project was in use) is deleted at the next start. A change deletes nothing:
rows are marked as removed, and the log holds what every row was before, which is all that undo needs.
"""

import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from implanting.serve.changes import Change, Changes
from implanting.serve.database import Database, Row
from implanting.serve.naming import NONE, named
from implanting.serve.photo_files import PhotoFiles
from implanting.serve.pictures import Picture
from implanting.serve.problems import Conflict, Missing

INSERT_PHOTO = (
    "INSERT INTO photos (project, class, name, file, digest, width, height, revision) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


class Store:
    """All projects of one data folder; every method may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = PhotoFiles(folder)
        self._database = Database(folder)
        self._changes = Changes(self._database)
        self.files.sweep({row["file"] for row in self._database.rows("SELECT file FROM photos")})
        self._sweep_exports()

    def close(self) -> None:
        """Release the data folder."""
        self._database.close()

    # Reading

    def projects(self) -> list[Row]:
        """All projects with their numbers of classes and photos and up to four photos, the latest changed first."""
        return self._database.rows(
            """SELECT projects.*,
            (SELECT count(*) FROM classes WHERE project = projects.id AND NOT classes.removed) AS classes,
            (SELECT count(*) FROM photos WHERE project = projects.id AND NOT photos.removed) AS photos,
            (SELECT group_concat(id || ':' || file) FROM (
                SELECT min(id) AS id, file FROM photos WHERE project = projects.id AND NOT photos.removed
                GROUP BY class ORDER BY class NULLS LAST LIMIT 4
            )) AS cover
            FROM projects ORDER BY changed DESC, id DESC"""
        )

    def project(self, project: int) -> Row:
        """One project that was not removed."""
        found = self._database.rows("SELECT * FROM projects WHERE id = ? AND NOT removed", project)
        if not found:
            raise Missing(f"there is no project {project}: open one of the list, or create one")
        return found[0]

    def state(self, project: int, since: int = 0) -> Row:
        """The project, its classes, and the photos that changed after the revision `since`, removed ones too."""
        query = "SELECT * FROM photos WHERE project = ? AND revision > ? AND NOT (removed AND ? = 0) ORDER BY id"
        with self._database.lock:
            return {
                "project": self.project(project),
                "classes": self.classes(project),
                "photos": self._database.rows(query, project, since, since),
                "undo": self._changes.next_about(project, "done"),
                "redo": self._changes.next_about(project, "undone"),
            }

    def classes(self, project: int) -> list[Row]:
        """The classes of a project, in the order in which they were made."""
        return self._database.rows("SELECT * FROM classes WHERE project = ? AND NOT removed ORDER BY id", project)

    def class_sizes(self, project: int) -> list[int]:
        """The number of photos of each class that has any."""
        query = (
            "SELECT count(*) AS size FROM photos WHERE project = ? AND class NOT NULL AND NOT removed GROUP BY class"
        )
        return [row["size"] for row in self._database.rows(query, project)]

    def examples(self, project: int) -> list[tuple[int, int | None]]:
        """Every photo of a project with its class; None where it has no label."""
        query = "SELECT id, class FROM photos WHERE project = ? AND NOT removed ORDER BY id"
        return [(row["id"], row["class"]) for row in self._database.rows(query, project)]

    def photo(self, project: int, photo: int) -> Row:
        """One photo; a removed one is still there for undo, and for a page that shows it."""
        found = self._database.rows("SELECT * FROM photos WHERE id = ? AND project = ?", photo, project)
        if not found:
            raise Missing(f"there is no photo {photo} in project {project}: load the list again")
        return found[0]

    def file(self, photo: Row) -> Path:
        """The path of the picture of a photo."""
        return self.files.picture(photo["file"])

    def exports(self, project: int) -> Path:
        """The folder of the classifiers of a project that were exported; they hold readings of its photos."""
        return self.folder / "exports" / str(int(project))

    def thumbnail_of(self, photo: Row) -> bytes:
        """The thumbnail of a photo."""
        return self.files.thumbnail_content(photo["file"])

    # Changing

    def add_project(self, name: str) -> int:
        """Create a project."""
        with self._database.writing():
            now = time.time()
            insert = "INSERT INTO projects (name, created, changed) VALUES (?, ?, ?)"
            return self._database.insert(insert, named(name, "project"), now, now)

    def rename_project(self, project: int, name: str) -> None:
        """Give a project another name."""
        with self._database.writing():
            self._set_project(self.project(project)["id"], name=named(name, "project"))

    def remove_project(self, project: int) -> None:
        """Take a project out of the list; it can be restored."""
        with self._database.writing():
            self._set_project(self.project(project)["id"], removed=1)

    def restore_project(self, project: int) -> None:
        """Put a project back into the list."""
        with self._database.writing():
            self._require_removed(project)
            self._set_project(project, removed=0)

    def delete_project(self, project: int) -> None:
        """Delete a removed project with its photos and exports: records first, so that no record lacks its file."""
        with self._database.lock:
            self._require_removed(project)
            photos = self._database.rows("SELECT file FROM photos WHERE project = ?", project)
            with self._database.writing():
                self._database.execute(
                    "DELETE FROM readings WHERE photo IN (SELECT id FROM photos WHERE project = ?)", project
                )
                for table in ("photos", "classes", "changes"):
                    self._database.execute(f"DELETE FROM {table} WHERE project = ?", project)  # noqa: S608 (our own names)
                self._database.execute("DELETE FROM projects WHERE id = ?", project)
        for photo in photos:
            self.files.remove(photo["file"])
        shutil.rmtree(self.exports(project), ignore_errors=True)  # what is in use is deleted at the next start

    def add_class(self, project: int, name: str, group: str | None = None) -> int:
        """Create a class without photos; it is undone together with the other changes of its `group`."""
        with self._change(project, group) as change:
            name = self._new_class_name(project, name)
            insert = "INSERT INTO classes (project, name, revision) VALUES (?, ?, ?)"
            number = self._database.insert(insert, project, name, change.revision)
            change.made("classes", number)
            change.about = f"new class {name}"
            return number

    def rename_class(self, project: int, number: int, name: str) -> None:
        """Give a class another name."""
        with self._change(project) as change:
            old = self._class(project, number)["name"]
            if old != name.strip():
                change.set("classes", number, name=self._new_class_name(project, name))
            change.about = f"{old} renamed"

    def remove_class(self, project: int, number: int) -> None:
        """Remove a class with its photos."""
        with self._change(project) as change:
            old = self._class(project, number)
            change.set("classes", number, removed=1)
            for photo in self._database.rows("SELECT id FROM photos WHERE class = ? AND NOT removed", number):
                change.set("photos", photo["id"], removed=1)
            change.about = f"class {old['name']} removed"

    def add_photos(
        self, project: int, number: int | None, pictures: Sequence[Picture], group: str | None = None
    ) -> list[tuple[int, bool]]:
        """Add pictures, and return the photo of each and whether it is new: identical files are not added twice.

        Files are written first, and the database is locked for the records alone. Changes of one `group` are undone
        together.
        """
        self.project(project)
        written: list[str] = []
        added: list[tuple[int, bool]] = []
        try:
            written += (self.files.write(picture) for picture in pictures)
            self.files.synchronise(written)
            with self._change(project, group) as change:
                if number is not None:
                    self._class(project, number)
                added += (
                    self._add_photo(change, number, picture, name)
                    for picture, name in zip(pictures, written, strict=True)
                )
                change.about = "photos added"
        except BaseException:
            added.clear()
            raise
        finally:
            kept = [new for _, new in added] or [False] * len(written)
            for name, new in zip(written, kept, strict=True):
                if not new:
                    self.files.remove(name)
        return added

    def _add_photo(self, change: Change, number: int | None, picture: Picture, file: str) -> tuple[int, bool]:
        query = "SELECT id FROM photos WHERE project = ? AND digest = ? AND NOT removed"
        if same := self._database.rows(query, change.project, picture.digest):
            return same[0]["id"], False
        values = (change.project, number, picture.name, file, picture.digest, picture.width, picture.height)
        photo = self._database.insert(INSERT_PHOTO, *values, change.revision)
        change.made("photos", photo)
        return photo, True

    def add_records(self, project: int, named: Sequence[tuple[int | None, str]]) -> list[int]:
        """Add photos of a class and a name without pictures, to measure large projects."""
        with self._change(project) as change:
            photos = []
            for number, name in named:
                file = secrets.token_hex(16)
                values = (project, number, name, f"{file}.jpg", file, 1, 1, change.revision)
                photos.append(self._database.insert(INSERT_PHOTO, *values))
                change.made("photos", photos[-1])
            change.about = "records added"
            return photos

    def move_photos(self, project: int, photos: Sequence[int], number: int | None) -> None:
        """Put photos into a class, or take their labels away."""
        with self._change(project) as change:
            into = "unlabelled" if number is None else self._class(project, number)["name"]
            for photo in photos:
                self._require_present(project, photo)
                change.set("photos", photo, **{"class": number})
            change.about = f"{_counted(photos)} moved to {into}"

    def remove_photos(self, project: int, photos: Sequence[int]) -> None:
        """Remove photos from the project."""
        with self._change(project) as change:
            for photo in photos:
                self._require_present(project, photo)
                change.set("photos", photo, removed=1)
            change.about = f"{_counted(photos)} removed"

    def undo(self, project: int) -> str:
        """Take the latest change back, and return what it was about."""
        with self._database.writing():
            self.project(project)
            return self._changes.undo(project)

    def redo(self, project: int) -> str:
        """Make the change again that was undone last, and return what it is about."""
        with self._database.writing():
            self.project(project)
            return self._changes.redo(project)

    # Readings are a cache: their loss costs time only

    def readings(self, project: int, network: str) -> dict[int, bytes]:
        """The readings of the photos of a project by one network."""
        query = (
            "SELECT photo, reading FROM readings JOIN photos ON photos.id = photo"
            " WHERE photos.project = ? AND network = ?"
        )
        return {row["photo"]: row["reading"] for row in self._database.rows(query, project, network)}

    def keep_readings(self, network: str, readings: dict[int, bytes]) -> None:
        """Keep what the network read, but for photos that were deleted meanwhile."""
        insert = "INSERT OR REPLACE INTO readings SELECT id, ?, ? FROM photos WHERE id = ?"
        with self._database.writing():
            self._database.execute_many(insert, [(network, reading, photo) for photo, reading in readings.items()])

    # Helpers

    @contextmanager
    def _change(self, project: int, group: str | None = None) -> Iterator[Change]:
        with self._database.writing():
            self.project(project)
            with self._changes.change(project, group) as change:
                yield change

    def _sweep_exports(self) -> None:
        known = {self.exports(row["id"]) for row in self._database.rows("SELECT id FROM projects")}
        for folder in set((self.folder / "exports").glob("[0-9]*")) - known:
            shutil.rmtree(folder, ignore_errors=True)

    def _set_project(self, project: int, **values: object) -> None:
        self._changes.next_revision(project)
        self._database.update("projects", project, values)

    def _require_removed(self, project: int) -> None:
        if not self._database.rows("SELECT id FROM projects WHERE id = ? AND removed", project):
            raise Missing(f"there is no removed project {project}: remove it first, or load the list again")

    def _class(self, project: int, number: int) -> Row:
        query = "SELECT * FROM classes WHERE id = ? AND project = ? AND NOT removed"
        found = self._database.rows(query, number, project)
        if not found:
            raise Missing(f"there is no class {number} in project {project}: load the list again")
        return found[0]

    def _require_present(self, project: int, photo: int) -> None:
        if self.photo(project, photo)["removed"]:
            raise Missing(f"photo {photo} was removed from project {project}: load the list again, or undo")

    def _new_class_name(self, project: int, name: str) -> str:
        name = named(name, "class")
        if name == NONE:
            raise Conflict(f"{NONE!r} is the answer for photos that fit no class: choose another name")
        if any(other["name"] == name for other in self.classes(project)):
            raise Conflict(f"there is a class {name!r} already: choose another name, or add photos to it")
        return name


def _counted(photos: Sequence[int]) -> str:
    return f"{len(photos)} photo{'s' * (len(photos) != 1)}"
