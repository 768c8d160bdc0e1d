"""Images to one square size, by one rule that is stored with every checkpoint."""

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from implanting.images.decoding import ImageSource, decode

RESIZING = "shorter side to size, antialiased bilinear, centre crop"
"""The rule, which is TADAM's for miniImageNet but for the order of its steps."""


def resize(image: Image.Image, size: int) -> UInt8[np.ndarray, "{size} {size} 3"]:
    """Scale the shorter side of an RGB image to `size` and crop the centre, in one step."""
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    square = image.resize((size, size), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))
    return np.asarray(square)


def load(source: ImageSource, size: int) -> UInt8[np.ndarray, "{size} {size} 3"]:
    """Decode and resize: what every image goes through before a network sees it."""
    return resize(decode(source, size), size)
