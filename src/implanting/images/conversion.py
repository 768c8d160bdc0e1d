"""Pixels of any kind that Pillow knows -> 8-bit RGB.

The choices made: transparency lies on white; 16-bit grey is scaled to 8 bits, not clipped; 32-bit and floating-point
grey, whose files do not say which number is white, are scaled by the first of 1 (floating point only), 255 and 65535
that no pixel exceeds, and where there is none, from their darkest to their brightest pixel.
"""

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from implanting.errors import ImageError

EIGHT_BITS, SIXTEEN_BITS = 255, 65535

PREMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}
"""Modes whose colours are multiplied by their alpha, and what Pillow converts them to."""

CHANNELS = (1, 2, 3, 4)
"""Of arrays: grey, grey and alpha, colour, colour and alpha."""


def to_rgb(image: Image.Image, name: str) -> Image.Image:
    """The image in mode RGB; `name` is for messages."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode == "F" or image.mode.startswith("I"):
        return Image.fromarray(_eight_bits(np.asarray(image), image.mode, name)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert(PREMULTIPLIED.get(image.mode, image.mode)).convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def image_of_array(array: np.ndarray) -> Image.Image:
    """The image that an array holds, in the mode that fits its channels."""
    flat = array.ndim == 3 and array.shape[2] == 1
    if array.dtype == np.uint8 and array.size and (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in CHANNELS)):
        return Image.fromarray(array[:, :, 0] if flat else array)
    mend = "multiply by 255 and convert it" if array.dtype.kind == "f" else "convert it, with values of 0 to 255"
    raise ImageError(
        f"an image array is {array.dtype} of shape {list(array.shape)}; needed is uint8 [height, width, 3] "
        f"or [height, width] (channels last; with alpha 4 or 2, grey also 1): {mend}"
    )


def _eight_bits(grey: np.ndarray, mode: str, name: str) -> UInt8[np.ndarray, "height width"]:
    darkest, white = (0.0, float(SIXTEEN_BITS)) if mode.startswith("I;16") else _range(grey, mode, name)
    scaled = (grey.astype(np.float32) - darkest) * (EIGHT_BITS / (white - darkest))
    return np.rint(scaled).astype(np.uint8)


def _range(grey: np.ndarray, mode: str, name: str) -> tuple[float, float]:
    """The numbers that stand for black and white."""
    darkest, brightest = float(grey.min()), float(grey.max())
    if not np.isfinite(darkest + brightest):
        raise ImageError(f"{name} has pixels that are no finite numbers: replace them, or save it with 8 or 16 bits")
    if darkest >= 0:
        whites = (1, EIGHT_BITS, SIXTEEN_BITS) if mode == "F" else (EIGHT_BITS, SIXTEEN_BITS)
        if white := next((white for white in whites if brightest <= white), None):
            return 0.0, float(white)
    return darkest, max(brightest, darkest + 1)
