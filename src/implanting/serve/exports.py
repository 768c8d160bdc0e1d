"""The routes that give the classifier away: its file, and an ONNX file that was seen to answer as the page does."""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from fastapi import APIRouter
from fastapi import Path as InPath
from fastapi.responses import FileResponse

from implanting.errors import ExportError
from implanting.export import TOLERANCE, onnx_bytes, open_session, run
from implanting.images import load
from implanting.runtime import write_atomically
from implanting.serve.api import PROBLEMS
from implanting.serve.learner import Learner
from implanting.serve.learning import Fitted, load_classifier, save
from implanting.serve.models import Exported, Id
from implanting.serve.store import Missing, Store

CHECKED = 100
"""Photos of the project on which an export must agree with the page, at most."""

ENDINGS = {"classifier": "safetensors", "onnx": "onnx"}

FileName = Annotated[Literal["classifier.safetensors", "classifier.onnx"], InPath()]


def export_routes(store: Store, learner: Learner) -> APIRouter:
    """All that gives away."""
    router = APIRouter(prefix="/api", responses=PROBLEMS, tags=["exports"])

    def place(project: int, name: str) -> Path:
        folder = store.folder / "exports" / str(int(project))
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    @router.post("/projects/{project}/exports/{kind}", status_code=201)
    def export(project: Id, kind: Literal["classifier", "onnx"]) -> Exported:
        """Write the classifier, ask it about the project's own photos, and keep it only if it answers as the page."""
        store.project(project)
        fitted = learner.fitted(project)
        pixels = own_photos(store, learner, project, fitted)
        expected, _ = fitted.ask(learner.ask(list(pixels)))
        path = place(project, f"classifier.{ENDINGS[kind]}")
        if kind == "classifier":
            save(fitted, path)
            found = load_classifier(path).predict_proba(pixels)
        else:
            content = onnx_bytes(fitted.classifier)
            found = run(open_session(content), torch.from_numpy(pixels))
            write_atomically(path, content)
        difference = float(np.abs(found - expected).max())
        if not difference <= TOLERANCE:
            path.unlink()
            raise ExportError(
                f"the exported file is wrong: a probability differs by {difference:.1e} from the page's on "
                f"{len(pixels)} photos, at most {TOLERANCE:.0e} is allowed; nothing was kept, please report this"
            )
        return Exported(
            file=path.name,
            bytes=path.stat().st_size,
            photos=len(pixels),
            same_answers=int((found.argmax(1) == expected.argmax(1)).sum()),
            largest_difference=difference,
        )

    @router.get("/projects/{project}/exports/{name}", response_class=FileResponse)
    def download(project: Id, name: FileName) -> FileResponse:
        """A file that was exported before."""
        store.project(project)
        path = place(project, name)
        if not path.is_file():
            raise Missing(f"{name} was not made yet: export it first")
        return FileResponse(path, filename=name, headers={"cache-control": "no-store"})

    return router


def own_photos(store: Store, learner: Learner, project: int, fitted: Fitted) -> np.ndarray:
    """Some of the project's photos, spread over all of them, as the network sees them."""
    step = max(1, -(-len(fitted.photos) // CHECKED))
    paths = [store.file(store.photo(project, photo)) for photo in fitted.photos[::step]]
    return np.stack([load(path, learner.side) for path in paths])
