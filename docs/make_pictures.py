"""Make the pictures of docs/heat-maps.md, from photographs that come with scikit-image and scikit-learn.

    python docs/make_pictures.py base.safetensors

Four photographs, four classes. The supports of a class are crops of the left part of its photograph; what is explained
is a crop of the right part, and a collage of all four. These are easy pictures, made to show how to read a map.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from skimage import data
from sklearn.datasets import load_sample_image

from implanting import BaseNetwork, load_base
from implanting.heatmap import Explanation, MapKind, centre_square, similarity_maps, softmax_maps
from implanting.images import load
from implanting.similarity import pool, probabilities, prototypes, scaled_cosine

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


class Explainer:
    """Prototypes of the four classes, and the maps of any image."""

    def __init__(self, base: BaseNetwork, photographs: list[np.ndarray]) -> None:
        self.base = base
        self.side = base.description.image_size[0]
        phi = torch.stack([torch.cat([self.phi(crop) for crop in supports(one)]) for one in photographs])
        self.vectors = prototypes(pool(phi, "gap"))

    def phi(self, image: np.ndarray, finer: int = 1) -> torch.Tensor:
        """Of the image at a multiple of the network's own size."""
        return self.base.embed(torch.tensor(load(image, finer * self.side))[None])

    def __call__(self, image: np.ndarray, kind: MapKind = "similarity", finer: int = 1) -> Explanation:
        """The maps at that multiple, the probabilities at the network's own size."""
        size = self.base.network.map_size(finer * self.side, finer * self.side)
        phi = self.phi(image, finer)[0]
        maps = (
            similarity_maps(phi, self.vectors, size)
            if kind == "similarity"
            else softmax_maps(phi, self.vectors, self.base.tau, size)
        )
        given = probabilities(scaled_cosine(self.phi(image)[0], self.vectors, self.base.tau))
        return Explanation(image, maps.numpy(), NAMES, given.numpy(), kind, centre_square(*image.shape[:2]))


def write(explanation: Explanation, name: str) -> None:
    """A jpg, since a png of photographs would be four times as large."""
    FOLDER.mkdir(exist_ok=True)
    explanation.figure().savefig(FOLDER / name, dpi=DPI, pil_kwargs={"quality": QUALITY, "subsampling": 0})


def main(base: str) -> None:
    """All pictures of the page."""
    given = photographs()
    explain = Explainer(load_base(base), given)
    cat, four = unseen(given[0]), collage(given)
    write(explain(cat, finer=2).top(3), "heat-map-cat.jpg")
    write(explain(four, finer=4), "heat-map-similarity.jpg")
    write(explain(four, "softmax", finer=4), "heat-map-softmax.jpg")
    for finer in (1, 2, 4):
        write(explain(four, finer=finer).only(["cat"]), f"heat-map-finer-{finer}.jpg")


if __name__ == "__main__":
    main(sys.argv[1])
