"""Learning that follows every change: photos are read in the background, and the project is fitted again.

A head is fitted to readings alone, so it takes milliseconds, and changes that come together are learned together. Where
the library would train implants instead, the head answers until a thread of their own has trained them. Readings are
kept by the store, so a project that is opened again is learned at once.
"""

import logging
import math
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from implanting.base import BaseNetwork, load_base
from implanting.errors import ImplantingError
from implanting.images import load
from implanting.serve.learning import Fitted, Reading, fit, key_of, side_of, trained_in_place_of, views_for
from implanting.serve.problems import Conflict, Missing
from implanting.serve.reader import TOGETHER, Pixels, Reader, Urgency
from implanting.serve.store import Store

LOG = logging.getLogger(__name__)

HELD = 256
"""Photos that wait to be read with their pixels in memory; others are loaded from their file when their turn comes."""

RESTS = 4
"""After a fit the learner leaves the project alone for this many times as long, while photos are still coming in."""

PATIENCE = 60.0
"""Seconds that a question waits for the network."""


@dataclass(eq=False)
class _Memory:
    """The learner's knowledge of one project."""

    readings: dict[int, Reading]
    reads: int = 0
    """Grows with every photo that is read."""
    unread: dict[int, "Future[Reading]"] = field(default_factory=dict)
    """Photos that are on their way through the network."""
    unreadable: set[int] = field(default_factory=set)
    fitted: Fitted | None = None
    seen: int = -1
    """The revision up to which everything was learned that could be."""
    trains: Fitted | None = None
    """The latest fit, while a slower classifier is trained that will replace it."""
    learned_from: tuple[dict[int, int], dict[int, str], int] | None = None
    """Labels, names of classes and number of views of the latest fit: only another choice is fitted again."""
    took: float = 0.0
    """Seconds of the latest fit."""
    rests_until: float = 0.0
    """When it may be fitted again: a large project is not fitted for every single photo of a folder."""


class Learner:
    """Knows what was learned of each project; whoever changes a project calls `changed`."""

    def __init__(self, store: Store, base: str | BaseNetwork) -> None:
        self._store, self._named = store, base
        self._memories: dict[int, _Memory] = {}
        self._dirty: dict[int, float] = {}
        self._fresh: dict[int, bytes] = {}
        self._turn = threading.Condition()
        self._stopped = False
        self._loading = threading.Lock()
        self.reader = Reader(lambda: self.base)
        self.reader.submit(self._blank, Urgency.EXAMPLE)  # so that the network is ready when the first photo comes
        self._thread = threading.Thread(target=self._run, name="implanting-learner", daemon=True)
        self._trainer = threading.Thread(target=self._train, name="implanting-trainer", daemon=True)
        self._thread.start()
        self._trainer.start()

    @cached_property
    def _loaded(self) -> BaseNetwork:
        return self._named if isinstance(self._named, BaseNetwork) else load_base(self._named)

    @property
    def base(self) -> BaseNetwork:
        """The base network, loaded when it is first needed."""
        with self._loading:
            return self._loaded

    @property
    def side(self) -> int:
        """Side in pixels of what the network reads."""
        return side_of(self.base)

    @property
    def network(self) -> str:
        """The key under which readings are kept."""
        return key_of(self.base)

    def close(self) -> None:
        """Finish what is being learned, and keep what was read.

        No thread may be left in PyTorch when the interpreter ends: the process would be aborted.
        """
        with self._turn:
            self._stopped = True
            self._turn.notify_all()
        self._thread.join()
        self._trainer.join()
        self.reader.close()
        self._keep()

    def changed(self, project: int, pixels: Mapping[int, Pixels] | None = None) -> None:
        """Learn a project again; `pixels` are those of new photos, which then need not be loaded from their files."""
        memory = self._memory(project)
        views = views_for(self.base, self._store.class_sizes(project)) if pixels else 1
        for photo, seen in (pixels or {}).items():
            held = len(memory.unread) < HELD
            self._read(project, photo, seen if held else None, views)
        self._wake(project)

    def forget(self, project: int) -> None:
        """A project was deleted."""
        with self._turn:
            self._memories.pop(project, None)
            self._dirty.pop(project, None)

    def progress(self, project: int) -> tuple[int, int, Fitted | None]:
        """Numbers of photos that were read and that still are to be read, and the latest fit."""
        memory = self._memory(project)
        return len(memory.readings), len(memory.unread), memory.fitted

    def busy(self, project: int, revision: int) -> bool:
        """Whether something of this revision is still to be learned."""
        memory = self._memory(project)
        return memory.seen < revision or bool(memory.unread) or memory.trains is not None

    def fitted(self, project: int, *, wait: float = 10.0, trained: bool = False) -> Fitted:
        """The latest fit; waits up to `wait` seconds for one of the latest revision.

        If `trained`, it waits for implants and for photos that are being read; else many such photos are not awaited.
        """
        memory = self._memory(project)
        revision = self._store.project(project)["revision"]
        deadline = time.monotonic() + wait
        soon = math.inf if trained else TOGETHER
        with self._turn:
            while (memory.seen < revision or memory.unread or (trained and memory.trains)) and not self._stopped:
                if memory.fitted is not None and (memory.took > wait or len(memory.unread) > soon):
                    break  # a fit of very many photos is not worth waiting for, nor is a folder that is being read
                if not self._turn.wait(deadline - time.monotonic()):
                    break
        if memory.fitted is None:
            raise Conflict(self._why_not(project))
        return memory.fitted

    def latest(self, project: int) -> Fitted | None:
        """The latest fit, without waiting."""
        return self._memory(project).fitted

    def readings(self, project: int, photos: Sequence[int]) -> dict[int, Reading]:
        """The readings of those photos that were read."""
        known = self._memory(project).readings
        return {photo: known[photo] for photo in photos if photo in known}

    def reading(self, project: int, photo: int) -> Reading:
        """The reading of one photo, as soon as it is there."""
        memory = self._memory(project)
        with self._turn:
            known, coming, queue = memory.readings.get(photo), memory.unread.get(photo), len(memory.unread)
        if known is not None:
            return known
        if coming is not None and queue <= TOGETHER:
            return coming.result(PATIENCE)
        path = self._store.file(self._store.photo(project, photo))
        return self.reader.submit(partial(load, path, self.side), Urgency.QUESTION).result(PATIENCE)

    def submit(self, pixels: Sequence[Pixels]) -> "list[Future[Reading]]":
        """Have photos read that are not kept."""
        return [self.reader.submit(partial(_as_it_is, one), Urgency.QUESTION) for one in pixels]

    def ask(self, pixels: Sequence[Pixels]) -> list[Reading]:
        """The readings of photos that are not kept."""
        return [future.result(PATIENCE) for future in self.submit(pixels)]

    # Inside

    def _blank(self) -> Pixels:
        return np.zeros((self.side, self.side, 3), np.uint8)

    def _memory(self, project: int) -> _Memory:
        """The memory of a project; one that was not open yet is read from the store."""
        memory = self._memories.get(project)
        if memory is not None:
            return memory
        kept = self._store.readings(project, self.network)
        known = {photo: Reading.from_bytes(reading, self.base) for photo, reading in kept.items()}
        with self._turn:
            memory = self._memories.setdefault(project, _Memory(known))
        self._wake(project)
        return memory

    def _wake(self, project: int) -> None:
        with self._turn:
            self._dirty.setdefault(project, time.monotonic())
            self._turn.notify_all()

    def _read(self, project: int, photo: int, pixels: Pixels | None, views: int) -> None:
        memory = self._memories[project]
        path = self._store.file(self._store.photo(project, photo))
        take = partial(load, path, self.side) if pixels is None else partial(_as_it_is, pixels)
        with self._turn:
            known = memory.readings.get(photo)
            if photo in memory.unread or photo in memory.unreadable or (known and len(known.vectors) >= views):
                return
            future = self.reader.submit(take, Urgency.EXAMPLE, views)
            memory.unread[photo] = future
        future.add_done_callback(partial(self._was_read, project, photo))

    def _was_read(self, project: int, photo: int, future: "Future[Reading]") -> None:
        memory = self._memories.get(project)
        if memory is None or future.cancelled():
            return
        with self._turn:
            if future.exception() is None:
                memory.readings[photo] = future.result()
                self._fresh[photo] = future.result().to_bytes()
            else:
                memory.unreadable.add(photo)
            memory.unread.pop(photo, None)
            memory.reads += 1
            memory.seen = -1
        self._wake(project)

    def _run(self) -> None:
        while True:
            with self._turn:
                if self._stopped:  # under the lock: else its notice could come just before the wait
                    return
                project, wait = self._next()
                if project is None and not self._fresh:
                    self._turn.wait(wait)
                    continue
            if project is not None:
                began = time.monotonic()
                try:
                    self._learn(project)
                except Exception:  # a bug of ours must not end the learning of all other projects
                    LOG.exception("project %d could not be learned", project)
                now = time.monotonic()
                if memory := self._memories.get(project):
                    memory.rests_until = now + RESTS * (now - began)
            if project is None or len(self._fresh) > HELD:
                self._keep()

    def _next(self) -> tuple[int | None, float | None]:
        """The project whose turn it is, or how long to wait for one; None is until something happens."""
        now = time.monotonic()
        rests = {
            project: memory.rests_until - now if (memory := self._memories.get(project)) and memory.unread else 0.0
            for project in sorted(self._dirty, key=self._dirty.__getitem__)
        }
        for project, rest in rests.items():
            if rest <= 0:
                del self._dirty[project]
                return project, None
        return None, min(rests.values(), default=None)

    def _keep(self) -> None:
        with self._turn:
            fresh, self._fresh = self._fresh, {}
        if fresh:
            try:
                self._store.keep_readings(self.network, fresh)
            except sqlite3.Error as error:  # they stay in memory, and are read again after a restart
                LOG.warning("readings of %d photos were not kept: %s", len(fresh), error)

    def _learn(self, project: int) -> None:
        try:
            memory = self._memory(project)
            revision = self._store.project(project)["revision"]
            examples = self._store.examples(project)
            names = {row["id"]: row["name"] for row in self._store.classes(project)}
            reads = memory.reads
        except Missing:
            return
        sizes = Counter(label for _, label in examples if label is not None)
        views = views_for(self.base, list(sizes.values()))
        for photo, label in examples:
            known, needed = memory.readings.get(photo), 1 if label is None else views
            if known is None or len(known.vectors) < needed:
                self._read(project, photo, None, needed)
        labels = {photo: label for photo, label in examples if label is not None and photo in memory.readings}
        read = min((len(memory.readings[photo].vectors) for photo in labels), default=1)
        learned_from = labels, {number: names[number] for number in set(labels.values())}, min(views, read)
        if learned_from == memory.learned_from:  # what changed are unlabelled photos, which teach nothing
            self._renew(memory, revision, reads)
            return
        began, fitted = time.monotonic(), None
        if len(learned_from[1]) >= 2:
            fitted = fit(self.base, revision, memory.readings, labels, names)
        with self._turn:
            memory.fitted, memory.learned_from, memory.took = fitted, learned_from, time.monotonic() - began
            memory.trains = fitted if fitted and not fitted.final else None
            memory.seen = revision if memory.reads == reads else -1  # else more were read meanwhile
            self._turn.notify_all()

    def _renew(self, memory: _Memory, revision: int, reads: int) -> None:
        """Carry the latest fit over to a revision with the same examples."""
        with self._turn:
            if memory.fitted is not None:
                memory.fitted = replace(memory.fitted, revision=revision)
            memory.seen = revision if memory.reads == reads else -1
            self._turn.notify_all()

    def _train(self) -> None:
        """Replace heads by the classifiers that the library would train, one project after the other."""
        while True:
            with self._turn:
                while not self._stopped and not self._untrained():
                    self._turn.wait()
                if self._stopped:
                    return
                memory = self._untrained()[0]
                head = memory.trains
                readings = dict(memory.readings)
            if head is None:
                continue
            try:
                trained = trained_in_place_of(head, readings)
            except Exception:  # the head goes on answering
                LOG.exception("no implants could be trained")
                trained = head
            with self._turn:
                if memory.trains is head and memory.fitted is not None:  # else the examples have changed meanwhile
                    memory.fitted, memory.trains = replace(trained, revision=memory.fitted.revision), None
                    self._turn.notify_all()

    def _untrained(self) -> list[_Memory]:
        """Projects that have been read completely, and whose classifier is still to be trained."""
        return [memory for memory in self._memories.values() if memory.trains and not memory.unread]

    def _why_not(self, project: int) -> str:
        memory = self._memory(project)
        if memory.unread:
            return f"{len(memory.unread)} photos are still being read: ask again in a moment"
        labelled = {label for photo, label in self._store.examples(project) if label is not None}
        names = [row["name"] for row in self._store.classes(project) if row["id"] in labelled]
        found = f"all labelled photos are of one class ({names[0]!r})" if names else "there is no photo with a class"
        return f"{found}; a classifier needs photos of two classes or more"


def _as_it_is(pixels: Pixels) -> Pixels:
    return pixels


def picture_path(store: Store, project: int, photo: int) -> Path:
    """The path of a photo's picture; raises where the file is missing."""
    path = store.file(store.photo(project, photo))
    if not path.is_file():
        raise ImplantingError(f"the picture of photo {photo} is missing in the data folder: restore it from a copy")
    return path
