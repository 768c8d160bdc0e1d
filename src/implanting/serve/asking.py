"""The routes that ask: about photos that are sent, about photos of the project, and where the classifier looked."""

import csv
import io
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import numpy as np
from fastapi import APIRouter, File, Query, UploadFile
from fastapi.responses import Response
from PIL import Image

from implanting.advice import choose
from implanting.errors import ImageError
from implanting.heatmap import Explanation, centre_square
from implanting.heatmap import Limits as Scale
from implanting.images import load
from implanting.serve.api import FOREVER, NEVER, PROBLEMS, content_of, shown_name, surplus
from implanting.serve.guard import Limits
from implanting.serve.learner import PATIENCE, Learner, picture_path
from implanting.serve.learning import Fitted, Reading, unit, vectors_of
from implanting.serve.models import (
    MOST,
    Answer,
    Answers,
    Brief,
    Example,
    Id,
    Probability,
    Refused,
    Unlabelled,
)
from implanting.serve.naming import NONE
from implanting.serve.pictures import in_words
from implanting.serve.problems import Missing
from implanting.serve.reader import Pixels
from implanting.serve.store import Store

NEAREST = 4
"""Number of similar examples that come with an answer."""

HEAT = 256
"""Longer side of a heat map, in pixels: the browser smooths it."""

COLOURS = (
    (48, 18, 59),
    (70, 107, 227),
    (40, 187, 236),
    (49, 242, 153),
    (162, 252, 60),
    (237, 208, 58),
    (251, 128, 34),
    (209, 48, 5),
    (122, 4, 3),
)
"""From low scores to high: Google's turbo, at even steps. matplotlib has it too, but takes a second to load."""

CLEAR = 2.0
"""Power of the score that gives the opacity: the larger, the clearer the photo is where the score is middling."""

UNSEEN = (0, 0, 0, 150)
"""Colour over the borders of a photo, which the network does not see."""

FORMULAS = "=+-@\t\r"
"""Characters that begin a formula in a spreadsheet."""

NEXT = 100
"""Number of photos that are suggested to be labelled next."""

EXPLAINED = 32
"""Number of photos whose heat maps are kept in memory."""


def asking_routes(store: Store, learner: Learner, limits: Limits) -> APIRouter:
    """The routes that ask."""
    router = APIRouter(prefix="/api", responses=PROBLEMS, tags=["answers"])

    @router.post("/projects/{project}/predict", response_model=Answers)
    def predict(
        project: Id,
        files: Annotated[list[UploadFile], File(description="Photos to ask about.")],
        top: Annotated[int, Query(ge=1, le=MOST, description="Classes of each answer.")] = MOST,
    ) -> Response:
        """Ask about photos, which are not kept. Photos that are asked about at the same time go through the network
        together."""
        fitted = learner.fitted(project, trained=True)
        with learner.reader.announced():
            names, pixels, refused = decoded(files, learner.side, limits)
        coming = learner.submit(pixels)
        answers = answers_for(fitted, names, [future.result(PATIENCE) for future in coming], top)
        content = Answers(revision=fitted.revision, answers=answers, refused=refused).model_dump_json()
        return Response(content, media_type="application/json")  # FastAPI would validate the answers once more

    @router.get("/projects/{project}/photos/{photo}/answer")
    def answer(project: Id, photo: Id) -> Answer:
        """Ask about a photo of the project. The classifier has learned from an example, so for an example `left_out` is
        the honest answer."""
        row = store.photo(project, photo)
        fitted = learner.fitted(project, wait=2.0)
        reading = learner.reading(project, photo)
        [answer] = answers_for(fitted, [row["name"]], [reading], MOST, leave_out=photo)
        return answer.model_copy(update={"left_out": left_out(fitted, photo)})

    @router.get("/projects/{project}/answers")
    def unlabelled(project: Id) -> Unlabelled:
        """The answers for all unlabelled photos, and which of them to label next."""
        fitted = learner.fitted(project, wait=2.0)
        return unlabelled_answers(fitted, unlabelled_readings(store, learner, project))

    @router.get("/projects/{project}/answers.csv", response_class=Response)
    def answers_csv(project: Id) -> Response:
        """The same answers as a table: photo, answer, probability of the likeliest class, then of every class."""
        fitted = learner.fitted(project, trained=True)
        readings = unlabelled_readings(store, learner, project)
        names = [store.photo(project, photo)["name"] for photo in readings]
        text = _csv(fitted, names, list(readings.values()))
        headers = {"content-disposition": 'attachment; filename="answers.csv"'}
        return Response(text.encode("utf-8-sig"), media_type="text/csv; charset=utf-8", headers=headers)

    @lru_cache(EXPLAINED)
    def explained(fitted: Fitted, path: Path) -> Explanation:
        return fitted.explain(path)

    @router.get("/projects/{project}/photos/{photo}/heat-map", response_class=Response)
    def heat_map(
        project: Id,
        photo: Id,
        class_id: Annotated[int, Query(ge=1, le=MOST, description="The class to look for.")],
        classifier: Annotated[
            str, Query(max_length=64, description="The classifier's key; with it, the browser may keep the picture.")
        ] = "",
    ) -> Response:
        """A transparent picture to lay over the photo: red where the photo looks like the class."""
        fitted = learner.fitted(project, wait=2.0)
        if class_id not in fitted.classes:
            raise Missing(f"there is no class {class_id} among those learned: load the project again")
        explanation = explained(fitted, picture_path(store, project, photo))
        label = fitted.classifier.classes_.tolist()[fitted.classes.index(class_id)]
        content = heat_picture(explanation.only([label]), explanation.limits)
        headers = FOREVER if classifier == fitted.key else NEVER  # the page may know an earlier classifier
        return Response(content, media_type="image/png", headers=headers)

    return router


def decoded(files: Sequence[UploadFile], side: int, limits: Limits) -> tuple[list[str], list[Pixels], list[Refused]]:
    """Names and pixels of the photos that can be decoded, and for the others the reason."""
    names, pixels, refused = [], [], []
    for upload in files[: limits.images]:
        name = shown_name(upload.filename)
        try:
            pixels.append(_pixels(content_of(upload), name, side))
            names.append(name)
        except ImageError as error:
            refused.append(Refused(name=name, message=str(error)))
    refused += surplus(files, limits)
    if not pixels:
        raise ImageError(refused[0].message)
    return names, pixels, refused


def _pixels(content: bytes, name: str, side: int) -> Pixels:
    try:
        return load(content, side)
    except ImageError as error:
        raise ImageError(in_words(error, content, name)) from error


def answers_for(
    fitted: Fitted, names: Sequence[str], readings: Sequence[Reading], top: int, leave_out: int | None = None
) -> list[Answer]:
    """The answers for readings; an example that is asked about is not shown as its own nearest one."""
    given, refused = fitted.ask(readings)
    classes = fitted.classifier.classes_.tolist()
    answers = []
    for name, row, none, reading in zip(names, given, refused, readings, strict=True):
        ranked = [int(place) for place in np.argsort(-row, kind="stable")[:top]]
        near = [one for one in fitted.nearest(reading, NEAREST + 1) if one[0] != leave_out][:NEAREST]
        answers.append(
            Answer(
                name=name,
                answer=NONE if none else classes[ranked[0]],
                none_of_these=bool(none),
                probabilities=[
                    Probability(class_id=fitted.classes[place], name=classes[place], probability=float(row[place]))
                    for place in ranked
                ],
                nearest=[Example(photo=photo, similarity=similarity) for photo, similarity in near],
            )
        )
    return answers


def left_out(fitted: Fitted, photo: int) -> Probability | None:
    """The answer for an example by a classifier that was fitted without it."""
    found = fitted.left_out(photo)
    if found is None:
        return None
    best = int(found.argmax())
    name = fitted.classifier.classes_.tolist()[best]
    return Probability(class_id=fitted.classes[best], name=name, probability=float(found[best]))


def unlabelled_readings(store: Store, learner: Learner, project: int) -> dict[int, Reading]:
    """Readings of the unlabelled photos that were read."""
    return learner.readings(project, [photo for photo, label in store.examples(project) if label is None])


def unlabelled_answers(fitted: Fitted, readings: dict[int, Reading]) -> Unlabelled:
    """Brief answers, and what to label next."""
    if not readings:
        return Unlabelled(revision=fitted.revision, answers=[], next=[])
    photos, read = list(readings), list(readings.values())
    given, refused = fitted.ask(read)
    second, first = np.partition(given, -2, axis=1)[:, -2:].T
    best = given.argmax(1)
    answers = [
        Brief(
            photo=photo,
            class_id=fitted.classes[best[row]],
            probability=float(first[row]),
            none_of_these=bool(refused[row]),
            uncertainty=float(1 - (first[row] - second[row])),
        )
        for row, photo in enumerate(photos)
    ]
    return Unlabelled(
        revision=fitted.revision,
        answers=answers,
        next=[photos[row] for row in choose(given, unit(vectors_of(read)), NEXT)],
    )


def _csv(fitted: Fitted, names: Sequence[str], readings: Sequence[Reading]) -> str:
    classes = [str(name) for name in fitted.classifier.classes_.tolist()]
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["photo", "answer", "probability", *map(_cell, classes)])
    if readings:
        for name, row, none in zip(names, *fitted.ask(readings), strict=True):
            best = int(row.argmax())
            answer = NONE if none else classes[best]
            table.writerow([_cell(name), _cell(answer), f"{row[best]:.4f}", *(f"{value:.4f}" for value in row)])
    return text.getvalue()


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in FORMULAS else text


def heat_picture(explanation: Explanation, scale: Scale) -> bytes:
    """The map of one class as a transparent picture of the photo's shape: the higher the score, the more colour.

    The borders that the network does not see are darkened.
    """
    height, width = explanation.image.shape[:2]
    factor = HEAT / max(height, width)
    box = (explanation.box or centre_square(height, width)).scaled(factor)
    places, colours = np.linspace(0, 1, len(COLOURS)), np.array(COLOURS)
    scores = (explanation.map[0] - scale.low) / (scale.high - scale.low)
    smooth = Image.fromarray(scores.astype(np.float32)).resize(box.size, Image.Resampling.BICUBIC)
    values = np.asarray(smooth).clip(0, 1)
    coloured = np.stack([np.interp(values, places, channel) for channel in colours.T] + [255 * values**CLEAR], axis=2)
    page = Image.new("RGBA", (max(1, round(factor * width)), max(1, round(factor * height))), UNSEEN)
    page.paste(Image.fromarray(np.rint(coloured).astype(np.uint8)), (box.left, box.top))
    file = io.BytesIO()
    page.save(file, "PNG")
    return file.getvalue()
