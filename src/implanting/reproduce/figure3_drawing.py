"""Figure 3 as a picture: two examples per row, each with the image, the pooling network's map and the dense one's."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from implanting.heatmap import (
    DPI,
    GAP,
    LETTER,
    LINE,
    NARROWEST,
    SCALE_LABELS,
    SMALL,
    Limits,
    Panel,
    draw_row,
    fit,
    overlay,
    percent,
    row_size,
    save_figure,
)
from implanting.reproduce.figure3 import EXAMPLES, Example, Figure3, Sight

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROW_LABEL = 0.3
"""Inches for the label at the left of a row."""

RIGHT, WRONG = "\N{CHECK MARK}", "\N{BALLOT X}"


def _panels(example: Example, limits: Limits) -> list[Panel]:
    """The image under the name of its class, then the two maps."""
    picture = fit(example.image, round(NARROWEST * DPI))
    maps = [("pooling", example.pooling), ("dense", example.dense)]
    drawn = [Panel(overlay(picture, sight.map, limits), *caption(network, sight, example)) for network, sight in maps]
    return [Panel(picture, example.name), *drawn]


def caption(network: str, sight: Sight, example: Example) -> tuple[str, str]:
    """The network's name, its answer if that is wrong, and its probability of the true class."""
    if sight.answer == example.name:
        return network, f"{RIGHT} {percent(sight.probability)}"
    return f"{network} {WRONG} {sight.answer}", percent(sight.probability)


def draw(found: Figure3) -> "Figure":
    """Draw all rows from top to bottom, and the caption below them."""
    from matplotlib.figure import Figure  # slow to import, and needed here only

    drawn = {name: [_prepared(one) for one in examples] for name, examples in found.rows.items()}
    sizes = [row_size(pictures) for row in drawn.values() for pictures, _ in row]
    width = max((size.width for size in sizes), default=2 * NARROWEST)
    height = max((size.height for size in sizes), default=2 * NARROWEST)
    across = ROW_LABEL + EXAMPLES * width
    text = textwrap.wrap(found.caption, int((across - 2 * GAP) / LETTER * 9 / SMALL))
    below = LINE * len(text) + 2 * GAP
    figure = Figure((across, below + len(drawn) * height), DPI, facecolor="white")
    up = below + len(drawn) * height
    figure.text(GAP / across, GAP / up, "\n".join(text), fontsize=SMALL, linespacing=1.4, parse_math=False)
    for number, (name, row) in enumerate(drawn.items()):
        bottom = below + (len(drawn) - 1 - number) * height
        figure.text(
            ROW_LABEL / 2 / across, (bottom + GAP + NARROWEST / 2) / up, name, rotation=90, ha="center", va="center"
        )
        for column, (pictures, limits) in enumerate(row):
            draw_row(figure, pictures, limits, SCALE_LABELS["similarity"], (ROW_LABEL + column * width, bottom))
        if len(row) < EXAMPLES:
            blank = (ROW_LABEL + (len(row) + 0.5) * width) / across, (bottom + height / 2) / up
            figure.text(*blank, f"{len(row)} found", fontsize=SMALL, ha="center", va="center")
    return figure


def _prepared(example: Example) -> tuple[list[Panel], Limits]:
    """The panels of an example, whose two maps share one colour scale."""
    limits = Limits.of(np.stack([example.pooling.map, example.dense.map]))
    return _panels(example, limits), limits


def write_figure3(found: Figure3, path: Path) -> None:
    """Write the figure as png, jpg, pdf, svg or webp, according to the extension of the path."""
    save_figure(draw(found), path)
