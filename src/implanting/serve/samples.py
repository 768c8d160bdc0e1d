"""The photos of the sample project: scikit-learn's flower, temple and digits, and a portrait that matplotlib brings.

We read the files of these packages without importing them, which would take longer than everything else that opening
the page does.
"""

import gzip
import io
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

Photos = list[tuple[str, bytes]]

SQUARES = ((0, 0, 360), (50, 20, 340), (120, 0, 300), (90, 60, 360), (160, 40, 320))
"""Left edge, top edge and side, in pixels, of the pieces of a photograph that are its class's examples."""

ASKED = (200, 30, 360)
"""Left edge, top edge and side of the piece of a photograph that is asked about."""

DIGITS = 7
"""Number of digits that are read: the last one is asked about, and the others are examples."""


@cache
def sample_photos() -> dict[str, Photos]:
    """Return the photos of each class; those under the empty name have no label, and are there to be asked about."""
    digits = [_jpeg(digit) for digit in _digits()]
    samples = {"digit": [(f"digit {number}.jpg", digit) for number, digit in enumerate(digits[:-1], 1)]}
    asked = [("which 1.jpg", digits[-1]), ("a stranger.jpg", _jpeg(Image.open(_stranger())))]
    for name, file in {"flower": "flower.jpg", "temple": "china.jpg"}.items():
        photograph = Image.open(_folder() / "images" / file).convert("RGB")
        pieces = [_piece(photograph, *square) for square in SQUARES]
        samples[name] = [(f"{name} {number}.jpg", _jpeg(piece)) for number, piece in enumerate(pieces, 1)]
        asked.append((f"which {len(asked)}.jpg", _jpeg(ImageOps.mirror(_piece(photograph, *ASKED)))))
    return samples | {"": asked}


def _folder() -> Path:
    return _installed("sklearn") / "datasets"


def _stranger() -> Path:
    """The path of a photo of no class: the U.S. Navy's portrait of Grace Hopper, which comes with matplotlib."""
    return _installed("matplotlib") / "mpl-data" / "sample_data" / "grace_hopper.jpg"


def _installed(package: str) -> Path:
    found = find_spec(package)
    return Path(str(found.origin)).parent if found else Path()


def _digits() -> list[Image.Image]:
    with gzip.open(_folder() / "data" / "digits.csv.gz", "rt") as file:
        rows = [np.array(line.split(",")[:64], dtype=np.uint8).reshape(8, 8) for line in islice(file, DIGITS)]
    return [Image.fromarray(255 - 15 * digit).resize((240, 240)) for digit in rows]


def _piece(photograph: Image.Image, left: int, top: int, side: int) -> Image.Image:
    return photograph.crop((left, top, left + side, top + side))


def _jpeg(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.convert("RGB").save(file, "JPEG", quality=92)
    return file.getvalue()
