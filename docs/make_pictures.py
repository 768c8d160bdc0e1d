"""Make the pictures of docs/heat-maps.md, from photographs that come with scikit-image and scikit-learn.

    python docs/make_pictures.py [BASE]

Four photographs, four classes. The supports of a class are crops of the left part of its photograph; what is explained
is a crop of the right part, and a collage of all four. These are easy pictures, made to show how to read a map.
"""

import sys
from pathlib import Path

import numpy as np
from skimage import data
from sklearn.datasets import load_sample_image

from implanting import FewShotClassifier
from implanting.config import ClassifierConfig
from implanting.heatmap import Explanation
from implanting.images import load

FOLDER = Path(__file__).parent / "images"
NAMES = ("cat", "coffee", "flower", "temple")
SUPPORTS = 5
DPI, QUALITY = 110, 86
"""Of the files, to keep them small."""


def photographs() -> list[np.ndarray]:
    """One of each class."""
    return [data.cat(), data.coffee(), load_sample_image("flower.jpg"), load_sample_image("china.jpg")]


def supports(photograph: np.ndarray) -> list[np.ndarray]:
    """Square crops, shifted from the left edge towards the middle."""
    height, width = photograph.shape[:2]
    side = int(0.85 * height)
    lefts = np.linspace(0, (width - side) / 2, SUPPORTS).astype(int)
    return [photograph[:side, left : left + side] for left in lefts]


def unseen(photograph: np.ndarray) -> np.ndarray:
    """The right part, lower by as much as the supports were higher."""
    height, width = photograph.shape[:2]
    return np.ascontiguousarray(photograph[height // 8 :, width // 4 :])


def collage(photographs: list[np.ndarray], side: int = 240) -> np.ndarray:
    """Two by two, in the order of the classes."""
    tiles = [load(photograph, side) for photograph in photographs]
    return np.vstack([np.hstack(tiles[:2]), np.hstack(tiles[2:])])


def learned_from(base: str, photographs: list[np.ndarray]) -> FewShotClassifier:
    """The four classes, as a user would learn them."""
    crops = [crop for photograph in photographs for crop in supports(photograph)]
    return FewShotClassifier(base).fit(crops, np.repeat(NAMES, SUPPORTS))


def write(explanation: Explanation, name: str) -> None:
    """A jpg, since a png of photographs would be four times as large."""
    FOLDER.mkdir(exist_ok=True)
    explanation.figure().savefig(FOLDER / name, dpi=DPI, pil_kwargs={"quality": QUALITY, "subsampling": 0})


def main(base: str = ClassifierConfig().base) -> None:
    """All pictures of the page."""
    given = photographs()
    classifier = learned_from(base, given)
    cat, four = unseen(given[0]), collage(given)
    write(classifier.explain(cat, top=3), "heat-map-cat.jpg")
    write(classifier.explain(four, top=4, kind="similarity", finer=2), "heat-map-similarity.jpg")
    write(classifier.explain(four, top=4, kind="softmax", finer=2), "heat-map-softmax.jpg")
    for finer in (1, 2, 4):
        write(classifier.explain(four, "cat", kind="similarity", finer=finer), f"heat-map-finer-{finer}.jpg")


if __name__ == "__main__":
    main(*sys.argv[1:])
