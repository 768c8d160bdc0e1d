"""Draw the diagram of the two stages, docs/images/method.svg.

    python docs/method_diagram.py

The photographs come with scikit-image and scikit-learn. Lengths are in units of the drawing, 100 wide and 56.5 high.
"""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Polygon, Rectangle
from PIL import Image
from skimage import data
from sklearn.datasets import load_sample_image

OUT = Path(__file__).parent / "images" / "method.svg"
WIDTH, HEIGHT = 100, 56.5
INK, FROZEN, TRAINED, IMPLANT, FAINT = "#222222", "#c9d3df", "#8fb8de", "#f28e2b", "#f5f6f8"
CLASSES = {"coffee": "#9c6b3f", "temple": "#4e9a70"}
PIXELS = 8
"""Side of an embedded photograph, per unit of the drawing."""

Point = tuple[float, float]


def square(photograph: np.ndarray, left: float, share: float) -> Image.Image:
    """A square part of a photograph, `share` of its height, at `left` of the room that there is."""
    height, width = photograph.shape[:2]
    side = int(share * height)
    start, top = int(left * (width - side)), (height - side) // 2
    return Image.fromarray(photograph[top : top + side, start : start + side])


def text(axes: Axes, at: Point, words: str, size: float = 8.5, **style: object) -> None:
    """Words, centred unless the style says otherwise."""
    axes.text(*at, words, **({"fontsize": size, "color": INK, "ha": "center", "va": "center"} | style))


def picture(axes: Axes, photograph: Image.Image, corner: Point, side: float, edge: str = INK) -> None:
    """A photograph with a frame."""
    (left, bottom) = corner
    pixels = photograph.resize((round(PIXELS * side),) * 2)
    axes.imshow(pixels, extent=(left, left + side, bottom, bottom + side), interpolation="none", zorder=2)
    axes.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=edge, linewidth=2, zorder=3))


def arrow(axes: Axes, start: Point, end: Point, colour: str = INK, width: float = 1.2) -> None:
    """An arrow from place to place."""
    shape = {"arrowstyle": "-|>", "mutation_scale": 9, "shrinkA": 0, "shrinkB": 0}
    axes.add_patch(FancyArrowPatch(start, end, color=colour, linewidth=width, zorder=4, **shape))


def network(axes: Axes, corner: Point, colour: str, words: str) -> None:
    """A network that makes maps smaller: 11 wide, from 14 high to 9."""
    left, bottom = corner
    corners = [(left, bottom), (left + 11, bottom + 2.5), (left + 11, bottom + 11.5), (left, bottom + 14)]
    axes.add_patch(Polygon(corners, facecolor=colour, edgecolor=INK, linewidth=1))
    text(axes, (left + 5.5, bottom + 7), words)


def grid(axes: Axes, corner: Point, side: float, colours: Sequence[str], words: str = "") -> None:
    """Three by three locations."""
    cell = side / 3
    for number in range(9):
        left, bottom = corner[0] + cell * (number % 3), corner[1] + cell * (number // 3)
        colour = colours[number % len(colours)]
        axes.add_patch(Rectangle((left, bottom), cell, cell, facecolor=colour, edgecolor="white", linewidth=1.5))
        text(axes, (left + cell / 2, bottom + cell / 2), words, 7.5)


def panel(axes: Axes, bottom: float, height: float, title: str, remark: str) -> None:
    """The ground of a stage, its title and when it happens."""
    shape = {"boxstyle": "round,pad=0,rounding_size=1", "facecolor": FAINT, "edgecolor": "none"}
    axes.add_patch(FancyBboxPatch((0.5, bottom), WIDTH - 1, height, zorder=0, **shape))
    text(axes, (2, bottom + height - 2.4), title, 11, ha="left", weight="bold")
    text(axes, (WIDTH - 2, bottom + height - 2.4), remark, 9, ha="right", style="italic")


def draw_stage_1(axes: Axes) -> None:
    """An image, its locations, and a cosine classifier at each of them."""
    panel(axes, 32.5, 23.5, "Stage 1: dense classification", "once, on many labelled images of base classes")
    picture(axes, square(data.cat(), 0.5, 1.0), (3, 36.5), 12)
    text(axes, (9, 34.7), "base image")
    arrow(axes, (15.6, 42.5), (19.4, 42.5))
    network(axes, (20, 35.5), TRAINED, "network\n(trained)")
    arrow(axes, (31.6, 42.5), (35.4, 42.5))
    grid(axes, (36, 36.5), 12, ["#5b8fc7", "#7aa6d4", "#93b9e0", "#6b9bcd"])
    text(axes, (42, 34.7), "r locations, each a vector")
    arrow(axes, (48.6, 42.5), (52.4, 42.5))
    shape = {"boxstyle": "round,pad=0,rounding_size=0.8", "facecolor": TRAINED, "edgecolor": INK}
    axes.add_patch(FancyBboxPatch((53, 37.5), 16, 10, **shape))
    text(axes, (61, 42.5), "one cosine classifier\nat every location:\nsoftmax of $\\tau\\,\\cos(\\phi^{(k)}, w_j)$", 8)
    arrow(axes, (69.6, 42.5), (73.4, 42.5))
    grid(axes, (74, 36.5), 12, ["#d8ecd9"], "cat")
    text(axes, (80, 34.7), "r answers")
    text(axes, (93, 42.5), "Every location\nmust be right:\nsharper features.", 8.5)


def draw_supports(axes: Axes) -> None:
    """The few images of two new classes; one of them is left out."""
    coffee, temple = data.coffee(), load_sample_image("china.jpg")
    for row, (name, photograph) in enumerate(zip(CLASSES, (coffee, temple), strict=True)):
        for place in range(3):
            crop = square(photograph, 0.2 + 0.3 * place, 0.9)
            left_out = (row, place) == (0, 2)
            picture(axes, crop, (2.5 + 6 * place, 18 - 8.5 * row), 5.4, "#d62728" if left_out else CLASSES[name])
    text(axes, (17.2, 24.6), "left out", 8, color="#d62728")
    text(axes, (11.2, 6), "a few images of new classes")


def draw_block(axes: Axes) -> None:
    """The last block: frozen layers, and beside each of them an implant that reads the layer below and the implant."""
    left, bottom, step = 43.0, 10.5, 8.0
    for layer in range(3):
        place = left + step * layer
        axes.add_patch(Rectangle((place, bottom), 3.4, 9.5, facecolor=FROZEN, edgecolor=INK, linewidth=1))
        axes.add_patch(Rectangle((place, bottom + 10.7), 3.4, 2.2, facecolor=IMPLANT, edgecolor=INK, linewidth=1))
        arrow(axes, (place - step + 3.9, bottom + 4.7), (place - 0.4, bottom + 4.7))
        arrow(axes, (place - step + 3.9, bottom + 6.4), (place - 0.4, bottom + 11.2), IMPLANT)
        if layer:
            arrow(axes, (place - step + 3.9, bottom + 12.1), (place - 0.4, bottom + 12.1), IMPLANT)
    text(axes, (52.7, 25.4), "implants: 16 new channels, trained", 8, color="#b35f0b")
    text(axes, (52.7, 8.3), "last block, frozen", 8)
    text(axes, (52.7, 5.6), "implants read the frozen layers;\nnothing flows back", 7.5, style="italic")


def draw_prototypes(axes: Axes) -> None:
    """Features of the supports, a mean per class, and the left-out one compared with both."""
    features = {"coffee": [(78.5, 20.5), (81.0, 17.0)], "temple": [(89.0, 12.0), (92.5, 10.5), (91.5, 14.2)]}
    query = (83.5, 20.8)
    for name, points in features.items():
        mean = tuple(np.mean(points, 0))
        for point in points:
            axes.plot(*zip(point, mean, strict=True), color=CLASSES[name], linewidth=0.8, zorder=3)
        axes.plot(*zip(*points, strict=True), "o", color=CLASSES[name], markersize=6, zorder=4)
        axes.plot(*mean, "*", color=CLASSES[name], markersize=14, markeredgecolor=INK, markeredgewidth=0.6, zorder=5)
        axes.plot(*zip(query, mean, strict=True), color="#d62728", linewidth=1, linestyle=":", zorder=3)
    axes.plot(*query, "o", color="white", markeredgecolor="#d62728", markeredgewidth=1.8, markersize=7, zorder=6)
    text(axes, (85.0, 22.6), "left out", 8, color="#d62728", ha="left")
    text(axes, (77.6, 15.4), "prototype", 8, color=CLASSES["coffee"])
    text(axes, (94.2, 8.2), "prototype", 8, color=CLASSES["temple"])
    text(
        axes,
        (87, 4.9),
        "each image in turn is classified by the\nprototypes (means) of the others",
        7.5,
        style="italic",
    )


def draw_stage_2(axes: Axes) -> None:
    """Supports, the frozen network with implants in its last block, and prototypes."""
    panel(axes, 0.5, 30, "Stage 2: implanting", "per task, on a few images; the network stays frozen")
    draw_supports(axes)
    arrow(axes, (21.3, 15.2), (24.9, 15.2))
    network(axes, (25.5, 8.2), FROZEN, "network\n(frozen)")
    draw_block(axes)
    arrow(axes, (63.4, 15.2), (73.8, 15.2))
    arrow(axes, (63.4, 22.3), (73.8, 17.6), IMPLANT)
    text(axes, (69.2, 13.2), "features", 8)
    draw_prototypes(axes)


def diagram() -> Figure:
    """Both stages, one above the other."""
    figure = Figure(figsize=(11, 11 * HEIGHT / WIDTH), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    draw_stage_1(axes)
    draw_stage_2(axes)
    axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT), aspect="equal")
    axes.axis("off")
    return figure


def main() -> None:
    """Written alike every time: without a date, and with names that a salt fixes."""
    with mpl.rc_context({"svg.hashsalt": "implanting", "mathtext.fontset": "dejavusans"}):
        diagram().savefig(OUT, metadata={"Date": None})


if __name__ == "__main__":
    main()
