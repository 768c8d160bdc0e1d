"""The route that checks: figures from photos that were left out, problems of labels, and plain advice."""

from collections import defaultdict
from functools import lru_cache

import numpy as np
from fastapi import APIRouter

from implanting.advice import Examples, check, sentences
from implanting.fewshot import Share
from implanting.serve.api import PROBLEMS
from implanting.serve.learner import Learner
from implanting.serve.learning import Fitted
from implanting.serve.models import Advice, Alike, Cell, Figures, Id, ShareRight, Suspect

LISTED = 100
"""The largest number of mislabelled photos and of groups of copies that are listed: nobody looks at more."""

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
        fitted = learner.fitted(project, wait=2.0)
        return remembered(fitted).model_copy(update={"revision": fitted.revision})

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
        advice=[
            Advice(text=one.text, class_id=None if one.about is None else classes[one.about])
            for one in sentences(examples, found)
        ],
    )


def _share(number: int | None, share: Share) -> ShareRight:
    low, high = share.interval
    return ShareRight(class_id=number, right=share.right, total=share.total, low=low, high=high)
