"""The log of changes, for undo and redo: every change notes the rows that it made or altered, before and after."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from implanting.serve.database import Database, Row
from implanting.serve.problems import Conflict

ORDERS = {"done": "DESC", "undone": "ASC"}
"""The order in which changes are undone, and in which undone ones are made again."""


@dataclass(frozen=True)
class Changed:
    """A row as it was and as it is: enough to go back and forth."""

    table: str
    id: int
    before: Row
    after: Row


class Change:
    """The rows that a change makes or alters."""

    def __init__(self, database: Database, project: int, revision: int) -> None:
        self._database, self.project, self.revision = database, project, revision
        self.rows: list[Changed] = []
        self.about = ""

    def made(self, table: str, number: int) -> None:
        """Note a new row; undo removes it."""
        self.rows.append(Changed(table, number, {"removed": 1}, {"removed": 0}))

    def set(self, table: str, number: int, **after: Any) -> None:
        """Give other values to some columns of a row."""
        columns = ", ".join(f'"{column}"' for column in after)
        [before] = self._database.rows(f"SELECT {columns} FROM {table} WHERE id = ?", number)  # noqa: S608 (our own names)
        if before == after:
            return
        self._database.update(table, number, {**after, "revision": self.revision})
        self.rows.append(Changed(table, number, before, after))


class Changes:
    """The changes of all projects."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def change(self, project: int, group: str | None = None) -> Iterator[Change]:
        """A change that can be undone; what was undone before can no longer be made again."""
        with self._database.writing():
            change = Change(self._database, project, self.next_revision(project))
            yield change
            if not change.rows:
                return
            self._database.execute("UPDATE changes SET state = 'gone' WHERE project = ? AND state = 'undone'", project)
            rows = json.dumps([vars(row) for row in change.rows])
            insert = "INSERT INTO changes (project, about, rows, grouped, at) VALUES (?, ?, ?, ?, ?)"
            self._database.insert(insert, project, change.about, rows, group, time.time())

    def next_revision(self, project: int) -> int:
        """Count a project's revision up."""
        update = "UPDATE projects SET revision = revision + 1, changed = ? WHERE id = ?"
        self._database.execute(update, time.time(), project)
        return int(self._database.rows("SELECT revision FROM projects WHERE id = ?", project)[0]["revision"])

    def undo(self, project: int) -> str:
        """Take the latest change back, and return what it was about."""
        return self._travel(project, "done", "undone", lambda row: row.before)

    def redo(self, project: int) -> str:
        """Make the change again that was undone last, and return what it is about."""
        return self._travel(project, "undone", "done", lambda row: row.after)

    def next_about(self, project: int, state: str) -> str | None:
        """What the change is about that would be undone or made again next."""
        query = f"SELECT about FROM changes WHERE project = ? AND state = ? ORDER BY id {ORDERS[state]} LIMIT 1"  # noqa: S608 (our own)
        found = self._database.rows(query, project, state)
        return found[0]["about"] if found else None

    def _travel(self, project: int, now: str, then: str, side: Callable[[Changed], Row]) -> str:
        with self._database.writing():
            found = self._next(project, now)
            if not found:
                raise Conflict(f"there is nothing to {'undo' if now == 'done' else 'redo'} in this project")
            revision = self.next_revision(project)
            for change in found:
                for row in (Changed(**row) for row in json.loads(change["rows"])):
                    self._database.update(row.table, row.id, {**side(row), "revision": revision})
                self._database.update("changes", change["id"], {"state": then})
            return str(found[0]["about"])

    def _next(self, project: int, state: str) -> list[Row]:
        """The change that would be undone or made again next, with the others of its group."""
        query = f"SELECT * FROM changes WHERE project = ? AND state = ?{{}} ORDER BY id {ORDERS[state]}"  # noqa: S608 (our own)
        found = self._database.rows(query.format("") + " LIMIT 1", project, state)
        if not found or found[0]["grouped"] is None:
            return found
        return self._database.rows(query.format(" AND grouped = ?"), project, state, found[0]["grouped"])
