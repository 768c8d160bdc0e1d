"""One image in any form people have it -> an upright RGB PIL image.

The choices made: transparency lies on white; 16-bit grey is scaled to 8 bits, not clipped; of an animation the first
frame counts; the camera's orientation (EXIF) is applied; a JPEG far larger than needed is decoded at a fraction of
its size, which Pillow calls draft mode.
"""

import io
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from implanting.errors import ImageError

IMAGE_EXTENSIONS = frozenset(
    {".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
)
"""Lower-case endings of the files that count as images."""

PIXEL_LIMIT = 178_956_970
"""Most pixels an image may have; twice Pillow's MAX_IMAGE_PIXELS, the point at which Pillow itself refuses."""

DRAFT_MARGIN = 2
"""A JPEG is decoded at no less than this many times the size asked for, so that resizing still smooths."""

SIXTEEN_TO_EIGHT = 257
"""65535 / 255."""

UPRIGHT, LYING = 1, (5, 6, 7, 8)
"""EXIF orientations: nothing to do; height and width change places."""

ImageSource = str | os.PathLike[str] | bytes | Image.Image | np.ndarray

DECODING_FAULTS = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error)
"""What Pillow raises for damaged files, by format."""


def decode(source: ImageSource, size: int | None = None) -> Image.Image:
    """The source as an upright RGB image.

    With `size`, a large JPEG may come back smaller than stored, but with both sides at least twice `size`.
    """
    if isinstance(source, np.ndarray):
        return Image.fromarray(_checked_array(source)).convert("RGB")
    if isinstance(source, Image.Image):
        return _decode(source, "the image given")
    name = _name(source)
    with _open(source, name) as image:
        if size is not None:
            image.draft(None, (DRAFT_MARGIN * size, DRAFT_MARGIN * size))
        return _decode(image, name)


def _decode(image: Image.Image, name: str) -> Image.Image:
    _check_pixels(image, name)
    with _faults_named(name):
        image.load()
        upright = ImageOps.exif_transpose(image) if _orientation(image) != UPRIGHT else image
        return _to_rgb(upright, name)


@contextmanager
def _faults_named(name: str) -> Iterator[None]:
    try:
        yield
    except DECODING_FAULTS as fault:
        raise ImageError(f"{name} is damaged or truncated ({fault}): replace or remove it") from fault


def stored_size(path: Path) -> tuple[int, int]:
    """Height and width of the upright image, from the file's header alone."""
    name = _name(path)
    with _open(path, name) as image, _faults_named(name):
        width, height = image.size
        return (width, height) if _orientation(image) in LYING else (height, width)


def _orientation(image: Image.Image) -> int:
    return int(image.getexif().get(ExifTags.Base.Orientation, UPRIGHT))


def _name(source: str | os.PathLike[str] | bytes) -> str:
    return f"the image given as {len(source)} bytes" if isinstance(source, bytes) else f"image {os.fspath(source)}"


def _open(source: str | os.PathLike[str] | bytes, name: str) -> Image.Image:
    try:
        return Image.open(io.BytesIO(source) if isinstance(source, bytes) else source)
    except FileNotFoundError:
        raise ImageError(f"{name} does not exist: check the path") from None
    except UnidentifiedImageError:
        raise ImageError(f"{name} is not an image that Pillow can read ({_content(source)}): remove it") from None
    except Image.DecompressionBombError as fault:
        raise ImageError(f"{name} has more than {PIXEL_LIMIT:,} pixels ({fault}): scale it down") from None
    except DECODING_FAULTS as fault:
        raise ImageError(f"{name} cannot be opened ({fault}): replace or remove it") from fault


def _content(source: str | os.PathLike[str] | bytes) -> str:
    length = len(source) if isinstance(source, bytes) else Path(source).stat().st_size
    return "it is empty" if length == 0 else f"{length} bytes of another kind"


def _check_pixels(image: Image.Image, name: str) -> None:
    if image.width * image.height > PIXEL_LIMIT:
        raise ImageError(
            f"{name} has {image.width} x {image.height} pixels; at most {PIXEL_LIMIT:,} are read: scale it down"
        )


def _checked_array(array: np.ndarray) -> np.ndarray:
    if array.dtype == np.uint8 and array.size and (array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)):
        return array
    raise ImageError(
        f"an image array is {array.dtype} of shape {list(array.shape)}; needed is uint8 [height, width, 3] or "
        "[height, width]: convert it, with values of 0 to 255"
    )


def _to_rgb(image: Image.Image, name: str) -> Image.Image:
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode == "F":
        raise ImageError(f"{name} has floating-point pixels; needed are 8 or 16 bits: convert it")
    if image.mode.startswith("I"):
        return Image.fromarray(_eight_bits(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _eight_bits(grey: np.ndarray) -> np.ndarray:
    """Pillow's integer modes hold 16-bit grey."""
    return np.rint(np.clip(grey.astype(np.float32) / SIXTEEN_TO_EIGHT, 0, 255)).astype(np.uint8)
