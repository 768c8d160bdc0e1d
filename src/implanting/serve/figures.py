"""The route that checks: honest figures from photos that were left out, what looks wrong, and plain advice."""

from collections import defaultdict
from functools import lru_cache

import numpy as np
from fastapi import APIRouter

from implanting.advice import Examples, Findings, check
from implanting.fewshot import Share
from implanting.serve.api import PROBLEMS
from implanting.serve.learner import Learner
from implanting.serve.learning import Fitted
from implanting.serve.models import Advice, Alike, Cell, Figures, Id, ShareRight, Suspect

FEW = 5
"""Photos of a class below which more are worth most."""

LISTED = 100
"""Photos that look mislabelled, and groups of copies, at most: more cannot be looked at."""

REMEMBERED = 8
"""Projects whose figures are kept in memory."""


def figure_routes(learner: Learner) -> APIRouter:
    """The route that checks."""
    router = APIRouter(prefix="/api", responses=PROBLEMS, tags=["figures"])

    @lru_cache(REMEMBERED)
    def remembered(fitted: Fitted) -> Figures:
        return figures_of(fitted)

    @router.get("/projects/{project}/figures")
    def figures(project: Id) -> Figures:
        """Accuracy with its interval, the confusion matrix, suspicious labels, copies, and advice."""
        return remembered(learner.fitted(project, wait=2.0))

    return router


def figures_of(fitted: Fitted) -> Figures:
    """The library's findings with the photos and classes that they are about."""
    names = tuple(str(name) for name in fitted.classifier.classes_.tolist())
    examples = Examples(
        [str(photo) for photo in fitted.photos], names, fitted.labels, fitted.held_out, fitted.thumbnails
    )
    found = check(examples)
    classes, photos = fitted.classes, fitted.photos
    cells: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in np.flatnonzero(examples.asked):
        cells[classes[fitted.labels[row]], classes[int(fitted.held_out[row].argmax())]].append(photos[row])
    return Figures(
        revision=fitted.revision,
        accuracy=_share(None, found.expected),
        per_class=[_share(number, share) for number, share in zip(classes, found.per_class, strict=True)],
        confusion=[Cell(truth=truth, answer=answer, photos=of) for (truth, answer), of in cells.items()],
        mislabelled=[
            Suspect(
                photo=photos[one.example],
                class_id=classes[one.label],
                looks_like=classes[one.looks_like],
                probability=one.probability,
            )
            for one in found.mislabelled[:LISTED]
        ],
        duplicates=[
            Alike(photos=[photos[row] for row in one.images], similarity=one.similarity, across=one.across)
            for one in found.copies[:LISTED]
        ],
        advice=advice_from(fitted, found, names),
    )


def _share(number: int | None, share: Share) -> ShareRight:
    low, high = share.interval
    return ShareRight(class_id=number, right=share.right, total=share.total, low=low, high=high)


def advice_from(fitted: Fitted, found: Findings, names: tuple[str, ...]) -> list[Advice]:
    """Plain sentences, those that help most first."""
    counts = np.bincount(fitted.labels, minlength=len(names))
    said: list[tuple[int | None, str]] = []
    if across := sum(one.across for one in found.copies):
        said.append((None, f"{_counted(across, 'photo')} stand in two classes: keep each in the right one."))
    if found.mislabelled:
        said.append(
            (None, f"{_counted(len(found.mislabelled), 'photo')} may have the wrong label: look at the list below.")
        )
    for place, share in enumerate(found.per_class):
        wrong = fitted.held_out[(fitted.labels == place) & np.isfinite(fitted.held_out).all(1)].argmax(1)
        mistaken = np.bincount(wrong[wrong != place], minlength=len(names))
        other = int(mistaken.argmax())
        if mistaken[other] >= 2 and mistaken[other] * 5 >= share.total:
            text = f"{mistaken[other]} of {share.total} {names[place]} photos were taken for {names[other]}"
            said.append((place, f"{text}: add {names[place]} photos that differ from {names[other]}."))
    for place, count in enumerate(counts.tolist()):
        if count < FEW:
            more = FEW - count
            said.append((place, f"{names[place]} has {_counted(count, 'photo')}: add {more} more, of different kinds."))
    return [Advice(text=text, class_id=None if place is None else fitted.classes[place]) for place, text in said]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
