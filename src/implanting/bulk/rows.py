"""Convert an answer to a row.

`class` is the answer, which may be the label for "none of these". `likeliest` is always one of the classes, and
`likeliest_probability` is its probability, so that a number never appears next to a label it does not belong to.
"""

from typing import Any

from implanting.classifier import Answer
from implanting.images import Failure, ImageSource

Row = dict[str, Any]

COLUMNS = ("image", "class", "likeliest", "likeliest_probability", "open_set_score")


def columns(top: int) -> list[str]:
    """Return the names of a row's values, in order; each of several `top` classes adds two."""
    ranked = [name for rank in range(1, top + 1) for name in (f"class_{rank}", f"probability_{rank}")]
    return [*COLUMNS, *(ranked if top > 1 else []), "error"]


def row_of(each: Answer | Failure, top: int = 1, image: ImageSource | None = None) -> Row:
    """Make the row of an image; `image` is its name if the source itself is not a path."""
    row: Row = dict.fromkeys(columns(top))
    row["image"] = str(each.source if image is None else image)
    if isinstance(each, Failure):
        return {**row, "error": each.reason}
    label, probability = each.ranking[0]
    row |= {"class": each.label, "likeliest": label, "likeliest_probability": probability}
    row["open_set_score"] = each.open_set_score
    for rank, (label, probability) in enumerate(each.ranking[:top] if top > 1 else (), start=1):
        row |= {f"class_{rank}": label, f"probability_{rank}": probability}
    return row
