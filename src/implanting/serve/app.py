"""The service put together: routes, the page, and errors as JSON."""

import errno
import sqlite3
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from implanting.base import BaseNetwork
from implanting.errors import ImplantingError
from implanting.serve.api import routes
from implanting.serve.asking import asking_routes
from implanting.serve.exports import export_routes
from implanting.serve.figures import figure_routes
from implanting.serve.guard import LOCAL, Guard, Limits
from implanting.serve.learner import Learner
from implanting.serve.problems import Conflict, Missing
from implanting.serve.store import Store
from implanting.version import __version__

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a full disk."""

ABOUT = """Classify images from a few examples of each class. A project has classes and photos; a photo without a class
has no label yet. Learning follows every change by itself. An error has one sentence, `message`."""


def make_app(
    data: Path,
    base: str | BaseNetwork,
    *,
    hosts: Iterable[str] = LOCAL,
    any_ip_address: bool = False,
    token: str | None = None,
    limits: Limits | None = None,
) -> ASGIApp:
    """Return the service on one data folder; raise an error if another server uses the folder."""
    limits = limits or Limits()
    store = Store(data)
    learner = Learner(store, base)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        learner.close()
        store.close()

    app = FastAPI(
        title="implanting", version=__version__, description=ABOUT, docs_url=None, redoc_url=None, lifespan=life
    )
    _errors(app)
    app.include_router(routes(store, learner, limits))
    app.include_router(asking_routes(store, learner, limits))
    app.include_router(figure_routes(learner))
    app.include_router(export_routes(store, learner, limits))
    page = Path(str(files("implanting.serve") / "page"))

    @app.get("/", include_in_schema=False)
    def index() -> FileResponse:
        return FileResponse(page / "index.html", headers={"cache-control": "no-cache"})

    @app.get("/docs", include_in_schema=False)
    def documentation() -> FileResponse:
        return FileResponse(page / "docs.html", headers={"cache-control": "no-cache"})

    app.mount("/page", StaticFiles(directory=page))
    return Guard(app, hosts, token, limits, any_ip_address=any_ip_address)


def _errors(app: FastAPI) -> None:
    """Every error is JSON with one sentence."""

    @app.exception_handler(ImplantingError)
    def library(_: Request, error: ImplantingError) -> JSONResponse:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in FULL:
            return _full(error.__cause__.strerror)
        status = 404 if isinstance(error, Missing) else 409 if isinstance(error, Conflict) else 422
        return _problem(status, str(error))

    @app.exception_handler(CancelledError)
    def stopping(_: Request, __: CancelledError) -> JSONResponse:
        return _problem(503, "the service is being stopped, and reads no more photos: start it again, then ask again")

    @app.exception_handler(RequestValidationError)
    def form(_: Request, error: RequestValidationError) -> JSONResponse:
        return _problem(422, "; ".join(_in_words(one) for one in error.errors()[:3]))

    @app.exception_handler(HTTPException)
    def http(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"message": str(error.detail)}, error.status_code, headers=error.headers)

    @app.exception_handler(OSError)
    def disk(_: Request, error: OSError) -> JSONResponse:
        if error.errno in FULL:
            return _full(error.strerror)
        raise error

    @app.exception_handler(sqlite3.OperationalError)
    def database(_: Request, error: sqlite3.OperationalError) -> JSONResponse:
        return _problem(507, f"the disk did not take the change ({error}), and nothing was changed: free some space")


def _full(reason: str | None) -> JSONResponse:
    return _problem(507, f"the disk is full ({reason}), and nothing was changed: free some space")


def _problem(status: int, message: str) -> JSONResponse:
    return JSONResponse({"message": message.encode("utf-8", "replace").decode()}, status)


def _in_words(error: dict) -> str:  # type: ignore[type-arg] # pydantic's own
    where = ".".join(str(part) for part in error["loc"][1:]) or "the request"
    return f"{where}: {error['msg']}"
