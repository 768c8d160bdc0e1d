"""A few photos in folders, as a user has them."""

import shutil
from pathlib import Path

import numpy as np
from PIL import Image
from skimage import data
from sklearn.datasets import load_sample_image


def write_photos(folder: Path) -> None:
    """Crops of photographs that come with scikit-image and scikit-learn, three classes and a fourth to be added."""
    sources = {
        "oak": data.cat(),
        "birch": data.coffee(),
        "ash": load_sample_image("flower.jpg"),
        "elm": data.astronaut(),
    }
    generator = np.random.default_rng(0)
    for name, picture in sources.items():
        height, width = picture.shape[:2]
        for number in range(1, 9):
            top, left = (int(generator.integers(0, side // 3)) for side in (height, width))
            crop = Image.fromarray(picture[top : top + 2 * height // 3, left : left + 2 * width // 3])
            place = folder / "photos" / ("support" if number < 5 else "labelled") / name
            place = folder / "elm-photos" if name == "elm" else place
            place.mkdir(parents=True, exist_ok=True)
            crop.resize((300, 240)).save(place / f"{number}.jpg")
    for name, source in (("a.jpg", "birch/5.jpg"), ("b.jpg", "oak/5.jpg")):
        shutil.copy(folder / "photos" / "labelled" / source, folder / name)
