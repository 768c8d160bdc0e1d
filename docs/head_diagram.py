"""Draw how the head answers a photo, docs/images/head.jpg: four readings of one pass, a score per class, its evidence.

    python docs/head_diagram.py

The classifier, the readings, the probabilities and the maps are real ones: four classes, each of five crops of one
photograph that comes with scikit-image or scikit-learn (`make_pictures.py`). Lengths are in units of the drawing.
"""

from pathlib import Path

import numpy as np
import torch
from make_pictures import learned_from, photographs, unseen
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from method_diagram import FROZEN, INK, TRAINED, arrow, network, picture, text
from PIL import Image

from implanting import FewShotClassifier
from implanting.images import load

OUT = Path(__file__).parent / "images" / "head.jpg"
WIDTH, HEIGHT = 100, 55
READINGS = (
    ("mean", "the rooted mean of the last map", "1"),
    ("maximum", "the maximum of the last map", "0.5"),
    ("ImageNet", "the rooted probabilities of its classes", "1"),
    ("middle", "the rooted maximum of a middle map", "1 to 5"),
)
"""Name, meaning and weight of each reading."""

STRIPES = 56
"""Numbers of a reading that are shown, evenly from all of them."""


def draw_reading(axes: Axes, bottom: float, name: str, values: np.ndarray, words: str) -> None:
    """Some of a reading's numbers as stripes, dark where they are large."""
    shown = values[np.linspace(0, len(values) - 1, STRIPES).astype(int)]
    axes.imshow(shown[None], extent=(37, 62, bottom, bottom + 3), aspect="auto", cmap="Blues", zorder=2)
    axes.add_patch(Rectangle((37, bottom), 25, 3, fill=False, edgecolor=INK, linewidth=1, zorder=3))
    text(axes, (37, bottom + 4.1), f"{name} ({len(values)}): {words}", 8, ha="left")


def draw_pass(axes: Axes, cat: np.ndarray, classifier: FewShotClassifier) -> None:
    """The photo, the frozen network, and the readings with their weights."""
    square = load(cat, 224)
    picture(axes, Image.fromarray(square), (2, 34), 12)
    text(axes, (8, 32.4), "a photo")
    arrow(axes, (14.6, 40), (17.4, 40))
    network(axes, (18, 33), FROZEN, "network\n(frozen),\none pass")
    base = classifier.base_
    values = base.read(torch.from_numpy(square.copy())[None])[0].split(base.reading_dims)
    for place, ((name, words, weight), reading) in enumerate(zip(READINGS, values, strict=True)):
        bottom = 47.0 - 6.5 * place
        draw_reading(axes, bottom, name, reading.numpy(), words)
        arrow(axes, (29.6, 40), (36.4, bottom + 1.5))
        arrow(axes, (67.4, bottom + 1.5), (72.4, 38.5 + (bottom - 37.0) / 4))
        text(axes, (62.8, bottom + 1.5), f"x {weight}", 8, ha="left")


def draw_answer(axes: Axes, names: list[str], given: np.ndarray) -> None:
    """The head, and the probability of each class."""
    shape = {"boxstyle": "round,pad=0,rounding_size=0.8", "facecolor": TRAINED, "edgecolor": INK}
    axes.add_patch(FancyBboxPatch((73, 34), 10, 12, **shape))
    text(axes, (78, 40), "head:\nlogistic\nregression,\ntrained on\nyour photos", 8)
    arrow(axes, (83.6, 40), (86.4, 40))
    for place, (name, probability) in enumerate(zip(names, given, strict=True)):
        bottom = 44.0 - 3.2 * place
        axes.add_patch(Rectangle((87, bottom), 11 * probability, 1.2, facecolor=TRAINED, edgecolor=INK, linewidth=0.6))
        text(axes, (87, bottom + 2.0), f"{name} {100 * probability:.1f} %", 8, ha="left")


def draw_evidence(axes: Axes, classifier: FewShotClassifier, cat: np.ndarray) -> None:
    """The maps of all classes, in one scale."""
    explanation = classifier.explain(cat, top=4)
    side, limits = 18.0, explanation.limits
    text(axes, (2, 21.2), "The evidence for each class, by place", 10, ha="left", weight="bold")
    text(axes, (98, 21.2), "the mean of a map is the score of its class", 9, ha="right", style="italic")
    for place, (name, pixels) in enumerate(zip(explanation.classes, explanation.overlays(500), strict=True)):
        height, width = pixels.shape[:2]
        left = 2 + 24.5 * place
        extent = (left, left + side * width / height, 2.0, 20.0)
        axes.imshow(pixels, extent=extent, zorder=2)
        score = explanation.map[place].mean()
        text(axes, (left, 1.0), f"{name}: score {score:+.1f}", 8.5, ha="left")
    text(axes, (98, 1.0), f"blue {limits.low:+.0f} to red {limits.high:+.0f}", 8.5, ha="right")


def diagram() -> Figure:
    """The pass above, its evidence below."""
    given = photographs()
    classifier, cat = learned_from("efficientnet-lite0", given), unseen(given[0])
    figure = Figure(figsize=(11, 11 * HEIGHT / WIDTH), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    draw_pass(axes, cat, classifier)
    draw_answer(axes, classifier.classes_.tolist(), classifier.predict_proba([cat])[0])
    draw_evidence(axes, classifier, cat)
    axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT), aspect="equal")
    axes.axis("off")
    return figure


def main() -> None:
    """A jpg, since the maps are photographs."""
    diagram().savefig(OUT, dpi=130, pil_kwargs={"quality": 88, "subsampling": 0})


if __name__ == "__main__":
    main()
