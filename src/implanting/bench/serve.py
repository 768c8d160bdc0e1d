"""The cost of the service over the classifier: predictions, one answer, memory, and adding to a large project."""

import http.client
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image

from implanting.base import BaseNetwork, load_base
from implanting.bench.timing import Work, best_seconds
from implanting.classifier import ImageClassifier
from implanting.config import ClassifierConfig, ThreadsConfig
from implanting.console import print_table, show_progress
from implanting.export import sample_photos
from implanting.serve import Reading, Store, key_of

CLIENTS = (1, 4, 16)
SIDE = 480
"""Width and height of the photos that are sent."""
BOUNDARY = "implanting-bench"
CLASSES = 5
PATIENCE = 600.0
FAR = 10**9
"""A revision beyond all: nothing has changed since."""


def _photos(count: int) -> list[bytes]:
    """Pieces of photographs as JPEG files."""
    pieces = sample_photos(SIDE, 8).numpy()
    generator = np.random.default_rng(0)
    photos = []
    for number in range(count):
        picture = np.roll(pieces[number % len(pieces)], int(generator.integers(SIDE)), axis=1)
        file = io.BytesIO()
        Image.fromarray(picture).save(file, "JPEG", quality=90)
        photos.append(file.getvalue())
    return photos


class _Service:
    """A client of a service that runs in a process of its own."""

    def __init__(self, port: int, process: int) -> None:
        self.port, self.process = port, process

    def ask(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> Any:
        """One request on a connection of its own thread."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            return self.on(connection, method, path, body, kind)
        finally:
            connection.close()

    def on(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes = b"", kind: str = ""
    ) -> Any:
        """One request on a connection that stays open."""
        connection.request(method, f"/api{path}", body, {"content-type": kind} if kind else {})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:200]!r}")
        return json.loads(content)

    def send(self, method: str, path: str, photo: bytes, **fields: object) -> Any:
        """One photo as a form."""
        return self.ask(method, path, *_form(photo, **fields))

    def resident(self) -> int:
        """Bytes of memory that the service has now; 0 where the system does not say (all but Linux)."""
        status = Path(f"/proc/{self.process}/status")
        found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.exists() else None
        return int(found[1]) * 1024 if found else 0

    def processor(self) -> float:
        """Processor seconds that the service has used; 0 where the system does not say (all but Linux)."""
        statistics = Path(f"/proc/{self.process}/stat")
        if not statistics.exists():
            return 0.0
        fields = statistics.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settle(self, project: int) -> None:
        """Wait until everything of a project was learned."""
        end = time.monotonic() + PATIENCE
        while self.ask("GET", f"/projects/{project}?since={FAR}")["learning"]["busy"]:
            if time.monotonic() > end:
                raise RuntimeError("the service is still learning")
            time.sleep(0.05)

    def predict(self, project: int, forms: "list[Form]", clients: int) -> None:
        """Ask about all photos, each in a request of its own, by some clients at once."""

        def work(client: int) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            for form in forms[client::clients]:
                self.on(connection, "POST", f"/projects/{project}/predict?top=1", *form)
            connection.close()

        with ThreadPoolExecutor(clients) as threads:
            list(threads.map(work, range(clients)))


Form = tuple[bytes, str]
"""The body of a request and its content type."""


def _form(photo: bytes, **fields: object) -> Form:
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}'
        for name, value in fields.items()
    ]
    parts.append(f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="a.jpg"\r\n\r\n')
    body = "\r\n".join(parts).encode() + photo + f"\r\n--{BOUNDARY}--\r\n".encode()
    return body, f"multipart/form-data; boundary={BOUNDARY}"


@contextmanager
def _serving(data: Path, base: str) -> Iterator[_Service]:
    command = [sys.executable, "-m", "implanting", "serve", "--no-open", "--port", "0", "--data", str(data)]
    process = subprocess.Popen([*command, "--base", base], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603 (our own command)
    try:
        line = process.stdout.readline() if process.stdout else ""
        port = re.search(r":(\d+)/", line)
        if port is None:
            raise RuntimeError(f"the service did not start: {line!r}")
        yield _Service(int(port[1]), process.pid)
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:  # still fitting a very large project
            process.kill()
            process.wait()


def _large_project(folder: Path, name: str, count: int, base: BaseNetwork) -> int:
    """A project whose photos were read already; their pictures are never asked for."""
    store = Store(folder)
    project = store.add_project(name)
    classes = [store.add_class(project, f"class {number}") for number in range(CLASSES)]
    photos = store.add_records(project, [(classes[number % CLASSES], f"{number}.jpg") for number in range(count)])
    vectors = np.random.default_rng(0).normal(0, 1, (count, sum(base.reading_dims))).astype(np.float32)
    for start in range(0, count, CLASSES):  # classes that can be told apart
        for number in range(start, min(start + CLASSES, count)):
            vectors[number, : 20 * (number % CLASSES + 1)] += 2
    read = {photo: Reading.made_up(base, vector).to_bytes() for photo, vector in zip(photos, vectors, strict=True)}
    store.keep_readings(key_of(base), read)
    store.close()
    return project


def _clients(count: int) -> str:
    return f"{count} client{'s' * (count != 1)}"


@dataclass(frozen=True)
class Serve:
    """Predictions over HTTP by 1, 4 and 16 clients against the classifier called directly, from a dropped photo to its
    answer, memory over many requests, and adding a photo to a large project against a small one.
    """

    base: str = ClassifierConfig.base
    """The base network: a name or a file."""
    photos: int = 128
    """Photos that are predicted in a turn."""
    requests: int = 5000
    """Requests over which memory is watched."""
    large: int = 5000
    """Photos of the large project; the small one has 50."""
    added: int = 20
    """Photos that are added to each, in turn."""
    rounds: int = 3
    """Turns of each contestant, after one to warm up."""
    json: bool = False
    """End with one JSON document on stdout."""
    run: ThreadsConfig = field(default_factory=ThreadsConfig)

    def __call__(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Rows of speeds by number of clients, and the rest."""
        base, photos = load_base(self.base), _photos(self.photos)
        base.require_features()
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder)
            small, large = (_large_project(data, str(count), count, base) for count in (50, self.large))
            with _serving(data, self.base) as service:
                project, classifier = self._taught(service, photos, data)
                contestants = self._contestants(service, project, classifier, photos)
                speeds = best_seconds(contestants, self.rounds, show_progress)
                processor = self._processor(service, contestants)
                once = {
                    "answer": self._answer(service, project, classifier),
                    "adding": self._adding(service, small, large),
                    "memory": self._memory(service, project, photos),
                }
        rows = [
            {
                "clients": clients,
                "per_second": self.photos / speeds[_clients(clients)],
                "ratio": speeds["directly"] / speeds[_clients(clients)],
                "processor_ratio": processor["directly"] / processor[_clients(clients)] if processor else None,
            }
            for clients in CLIENTS
        ]
        return rows, {"directly_per_second": self.photos / speeds["directly"], **once}

    def _taught(self, service: _Service, photos: list[bytes], data: Path) -> tuple[int, ImageClassifier]:
        """A project of a few classes, and the classifier that it exports."""
        project = service.ask("POST", "/projects", b'{"name": "bench"}')["id"]
        for number in range(2):
            made = service.ask("POST", f"/projects/{project}/classes", json.dumps({"name": f"{number}"}).encode())["id"]
            for photo in photos[number : 10 + number : 2]:
                service.send("POST", f"/projects/{project}/photos", photo, class_id=made)
        service.ask("POST", f"/projects/{project}/exports/classifier")
        return project, ImageClassifier.load(data / "exports" / str(project) / "classifier.safetensors", device="cpu")

    def _contestants(
        self, service: _Service, project: int, classifier: ImageClassifier, photos: list[bytes]
    ) -> dict[str, Work]:
        forms = [_form(photo) for photo in photos]
        asking = {_clients(count): partial(service.predict, project, forms, count) for count in CLIENTS}
        return {"directly": partial(classifier.predict_proba, photos), **asking}

    def _processor(self, service: _Service, contestants: dict[str, Work]) -> dict[str, float]:
        """Processor seconds of the classifier here and of the service without its clients; the least of several turns.

        If other programs use the machine, this is the better measure: by the clock, a program with more threads gets a
        larger share of the machine.
        """
        if not service.processor():
            return {}
        used: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(self.rounds):
            for name, work in contestants.items():
                clock = time.process_time if name == "directly" else service.processor
                began = clock()
                work()
                used[name].append(clock() - began)
        return {name: min(times) for name, times in used.items()}

    def _answer(self, service: _Service, project: int, classifier: ImageClassifier) -> dict[str, float]:
        """Seconds from a dropped photo to its answer, as the page asks for it, and of the direct call; medians."""
        new = _photos(self.photos + 2 * self.added)[-2 * self.added :]
        directly, page = [], []
        for photo in new:
            began = time.perf_counter()
            classifier.predict_proba([photo])
            between = time.perf_counter()
            [added] = service.send("POST", f"/projects/{project}/photos", photo)["added"]
            service.ask("GET", f"/projects/{project}/photos/{added['id']}/answer")
            directly.append(between - began)
            page.append(time.perf_counter() - between)
        return {"directly": median(directly), "page": median(page)}

    def _adding(self, service: _Service, small: int, large: int) -> dict[str, float]:
        """Seconds to add one photo to a small and to a large project; medians, in turn."""
        times: dict[int, list[float]] = {small: [], large: []}
        for project in times:
            service.settle(project)
        for photo in _photos(self.photos + self.added)[-self.added :]:
            for project, taken in times.items():
                began = time.perf_counter()
                service.send("POST", f"/projects/{project}/photos", photo)
                taken.append(time.perf_counter() - began)
                service.settle(project)
        return {"small": median(times[small]), "large": median(times[large])}

    def _memory(self, service: _Service, project: int, photos: list[bytes]) -> dict[str, int]:
        """Resident bytes after a tenth of the requests, and after all of them."""
        turns = max(2, self.requests // len(photos))
        measured, forms = [], [_form(photo) for photo in photos]
        for turn in show_progress(range(turns), "watching memory", turns):
            service.predict(project, forms, 4)
            measured.append(service.resident())
            del turn
        return {"requests": turns * len(photos), "early": measured[turns // 10], "late": measured[-1]}

    def show(self, rows: list[dict[str, Any]], once: dict[str, Any]) -> None:
        """The tables."""
        directly = once["directly_per_second"]
        print_table(
            "predictions per second",
            ["", "per second", "ratio", "ratio of processor time"],
            [["the classifier, called directly", f"{directly:.1f}", "1", "1"]]
            + [
                [
                    f"{_clients(row['clients'])} over HTTP",
                    f"{row['per_second']:.1f}",
                    f"{row['ratio']:.2f}",
                    f"{row['processor_ratio']:.2f}" if row["processor_ratio"] else "",
                ]
                for row in rows
            ],
            f"{self.photos} photos per turn, best of {self.rounds} turns; {os.cpu_count()} cores, for clients too",
        )
        answer, adding, memory = once["answer"], once["adding"], once["memory"]
        print_table(
            "one photo at a time",
            ["", "milliseconds"],
            [
                ["the classifier, called directly", f"{1000 * answer['directly']:.0f}"],
                ["from a dropped photo to its answer", f"{1000 * answer['page']:.0f}"],
                ["adding a photo to a project of 50", f"{1000 * adding['small']:.0f}"],
                [f"adding a photo to a project of {self.large}", f"{1000 * adding['large']:.0f}"],
            ],
            f"medians of {2 * self.added} and {self.added}, in turn",
        )
        growth = (memory["late"] - memory["early"]) / 2**20
        print_table(
            "memory",
            ["", ""],
            [[f"growth over the last nine tenths of {memory['requests']} requests", f"{growth:.0f} MiB"]],
        )
