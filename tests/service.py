"""The service as tests use it: on a free port of this process, and the photos to send it."""

import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import requests
import uvicorn
from PIL import Image

from implanting.base import BaseNetwork
from implanting.serve.app import make_app


class Client:
    """An HTTP client of the service."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session = requests.Session()

    def __call__(self, method: str, path: str, status: int | None = None, **given: Any) -> Any:
        """The answer, which has this status, or is a good one."""
        answer = self.session.request(method, f"{self.url}/api{path}", timeout=300, **given)
        assert answer.status_code == status if status else answer.ok, (answer.status_code, answer.text)
        return answer.json() if "json" in answer.headers["content-type"] else answer.content

    def add(self, project: int, photos: dict[str, bytes], class_id: int | None = None, **given: Any) -> Any:
        files = [("files", (name, content)) for name, content in photos.items()]
        data = {} if class_id is None else {"class_id": class_id}
        return self("POST", f"/projects/{project}/photos", files=files, data=data, **given)

    def learned(self, project: int) -> Any:
        """The state of a project once everything was learned."""
        for _ in range(600):
            state = self("GET", f"/projects/{project}")
            if not state["learning"]["busy"]:
                return state
            time.sleep(0.05)
        raise AssertionError(state["learning"])


@contextmanager
def serving(data: Path, base: BaseNetwork | str, *, port: int = 0, **given: Any) -> Iterator[Client]:
    """The service in a thread; port 0 is any that is free."""
    app = make_app(data, base, **given)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    client = Client(f"http://127.0.0.1:{port}")
    try:
        yield client
    finally:
        client.session.close()
        server.should_exit = True
        thread.join(300)
        assert not thread.is_alive()


def photo(
    colour: tuple[int, int, int] = (200, 40, 40), seed: int = 0, size: tuple[int, int] = (64, 48), kind: str = "JPEG"
) -> bytes:
    """A picture of blocks in about one colour, no two of which are alike."""
    generator, shape = np.random.default_rng([seed, *colour]), (size[1], size[0])
    blocks = Image.fromarray(generator.integers(0, 256, (6, 6), dtype=np.uint8)).resize(size, Image.Resampling.NEAREST)
    noise = generator.normal(0, 10, (*shape, 3)) + (np.asarray(blocks, dtype=float)[..., None] - 128) / 5
    file = io.BytesIO()
    Image.fromarray((np.array(colour) + noise).clip(0, 255).astype(np.uint8)).save(file, kind)
    return file.getvalue()


COLOURS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200)}


def photos_of(colour: str, count: int, start: int = 0) -> dict[str, bytes]:
    return {f"{colour} {number}.jpg": photo(COLOURS[colour], number) for number in range(start, start + count)}
