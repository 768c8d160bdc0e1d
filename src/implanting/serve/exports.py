"""The routes that export the classifier: its own file, an ONNX file and a stand-alone page, each checked first."""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from fastapi import APIRouter, File, UploadFile
from fastapi import Path as InPath
from fastapi.responses import FileResponse

from implanting.classifier import Answer, ImageClassifier
from implanting.errors import CheckpointError, ExportError, ImageError
from implanting.export import TOLERANCE, onnx_bytes, open_session, page_bytes, run
from implanting.images import load
from implanting.runtime import write_atomically
from implanting.serve.api import PROBLEMS, content_of, shown_name, surplus
from implanting.serve.guard import Limits
from implanting.serve.learner import Learner
from implanting.serve.learning import Fitted, load_classifier
from implanting.serve.models import Exported, FileAnswer, FileAnswers, FileProbability, Id, Refused
from implanting.serve.problems import Missing
from implanting.serve.store import Store

CHECKED = 100
"""The largest number of the project's photos on which an export must agree with the page."""

TRAINING = 300.0
"""Seconds that an export waits for implants, at most."""

ENDINGS = {"classifier": "safetensors", "onnx": "onnx", "html": "html"}

FileName = Annotated[Literal["classifier.safetensors", "classifier.onnx", "classifier.html"], InPath()]


def export_routes(store: Store, learner: Learner, limits: Limits) -> APIRouter:
    """The routes that export."""
    router = APIRouter(prefix="/api", responses=PROBLEMS, tags=["exports"])

    def kept(project: int, name: str, write: Callable[[Path], None]) -> Path:
        """The path of a file, written unless its project was deleted while the classifier was being fitted."""
        path = store.exports(project) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
        try:
            store.project(project)
        except Missing:
            path.unlink(missing_ok=True)
            raise
        return path

    @router.post("/projects/{project}/exports/{kind}", status_code=201)
    def export(project: Id, kind: Literal["classifier", "onnx", "html"]) -> Exported:
        """Export the classifier, and keep the file only if it answers the project's own photos as the page does.

        `html` is a page that runs the ONNX graph in the browser without a server; the graph is checked.
        """
        title = store.project(project)["name"]
        fitted = learner.fitted(project, wait=TRAINING, trained=True)
        pixels = own_photos(store, learner, project, fitted)
        expected, _ = fitted.ask(learner.ask(list(pixels)))
        name = f"classifier.{ENDINGS[kind]}"
        if kind == "classifier":
            path = kept(project, name, fitted.classifier.save)
            found = load_classifier(path).predict_proba(pixels)
        else:
            graph = onnx_bytes(fitted.classifier)
            found = run(open_session(graph), torch.from_numpy(pixels))
            content = graph if kind == "onnx" else page_bytes(fitted.classifier, graph, title)
            path = kept(project, name, partial(write_atomically, content=content))
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
        """Download a file that was exported before."""
        store.project(project)
        path = store.exports(project) / name
        if not path.is_file():
            raise Missing(f"{name} has not been exported yet: export it first")
        return FileResponse(path, filename=name, headers={"cache-control": "no-store"})

    @router.post("/classifiers/ask")
    def ask_file(
        classifier: Annotated[UploadFile, File(description="A classifier file, as it is exported here.")],
        files: Annotated[list[UploadFile], File(description="Photos to ask about.")],
    ) -> FileAnswers:
        """Ask a classifier file about photos. Neither is kept. The file is safetensors, which cannot run code."""
        loaded = _received_classifier(classifier)
        names, contents, refused = _contents(files[: limits.images])
        answers, failures = loaded.answers(contents, top=len(loaded.classes_), skip_bad=True) if contents else ([], [])
        bad = {failure.index: f"{names[failure.index]!r}: {failure.reason}" for failure in failures}
        refused += [Refused(name=names[number], message=message) for number, message in bad.items()]
        refused += surplus(files, limits)
        if not answers:
            raise ImageError(refused[0].message)
        good = [name for number, name in enumerate(names) if number not in bad]
        given = [_file_answer(name, answer) for name, answer in zip(good, answers, strict=True)]
        return FileAnswers(answers=given, refused=refused)

    return router


def _received_classifier(upload: UploadFile) -> ImageClassifier:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "classifier.safetensors"
        write_atomically(path, upload.file.read())
        try:
            return load_classifier(path)
        except CheckpointError as error:
            raise CheckpointError(str(error).replace(str(path), "the classifier file")) from error


def _contents(files: Sequence[UploadFile]) -> tuple[list[str], list[bytes], list[Refused]]:
    """Names and bytes of the photos that are small enough, and for the others the reason."""
    names, contents, refused = [], [], []
    for upload in files:
        name = shown_name(upload.filename)
        try:
            contents.append(content_of(upload))
            names.append(name)
        except ImageError as error:
            refused.append(Refused(name=name, message=str(error)))
    return names, contents, refused


def _file_answer(name: str, answer: Answer) -> FileAnswer:
    given = [FileProbability(name=str(label), probability=value) for label, value in answer.ranking]
    return FileAnswer(name=name, answer=str(answer.label), probabilities=given)


def own_photos(store: Store, learner: Learner, project: int, fitted: Fitted) -> np.ndarray:
    """Some of the project's photos, spread over all of them, as the network sees them."""
    step = max(1, -(-len(fitted.photos) // CHECKED))
    paths = [store.file(store.photo(project, photo)) for photo in fitted.photos[::step]]
    return np.stack([load(path, learner.side) for path in paths])
