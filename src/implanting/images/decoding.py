"""One image in any form people have it -> an upright RGB PIL image.

The choices made: the number of pixels is checked before they are decoded; of an animation the first frame counts; the
camera's orientation (EXIF) is applied; a JPEG far larger than needed is decoded at a fraction of its size, which
Pillow calls draft mode. `conversion.py` tells how pixels become RGB.
"""

import io
import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from implanting.errors import ImageError
from implanting.images.conversion import image_of_array, to_rgb

CAMERA_ONLY = frozenset({".heic", ".heif"})
"""Photos of telephones that Pillow does not read: an error is better than passing over them."""

IMAGE_EXTENSIONS = CAMERA_ONLY | {
    ".apng", ".avif", ".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".mpo", ".pbm", ".pgm", ".png", ".pnm", ".ppm",
    ".tif", ".tiff", ".webp",
}  # fmt: skip
"""Lower-case endings of the files that count as images."""

PIXEL_LIMIT = 178_956_970
"""Most pixels an image may have; twice Pillow's MAX_IMAGE_PIXELS, the point at which Pillow itself refuses."""

DRAFT_MARGIN = 2
"""A JPEG is decoded at no less than this many times the size asked for, so that resizing still smooths."""

UPRIGHT, LYING = 1, (5, 6, 7, 8)
"""EXIF orientations: nothing to do; height and width change places."""

Encoded = str | os.PathLike[str] | bytes | bytearray | memoryview
"""A file, or what is in one."""

ImageSource = Encoded | Image.Image | np.ndarray

DECODING_FAULTS = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, RuntimeError, Warning)
"""What Pillow raises for damaged files, by format; warnings where the user has made them errors."""

BOMBS = (Image.DecompressionBombError, Image.DecompressionBombWarning)


def decode(source: ImageSource, size: int | None = None) -> Image.Image:
    """The source as an upright RGB image.

    With `size`, a large JPEG may come back smaller than stored, but with both sides at least twice `size`.
    """
    name = name_of(source)
    if isinstance(source, np.ndarray):
        return to_rgb(image_of_array(source), name)
    if isinstance(source, Image.Image):
        return _decode(source, name)
    with _open(source, name) as image:
        if size is not None:
            image.draft(None, (DRAFT_MARGIN * size, DRAFT_MARGIN * size))
        return _decode(image, name)


def _decode(image: Image.Image, name: str) -> Image.Image:
    _check_pixels(image, name)
    with _faults_named(name):
        image.load()
        upright = ImageOps.exif_transpose(image) if _orientation(image) != UPRIGHT else image
        return to_rgb(upright, name)


@contextmanager
def _faults_named(name: str) -> Iterator[None]:
    try:
        yield
    except ImageError:  # a ValueError that is named already
        raise
    except BOMBS as fault:
        raise _too_large(name, _pixels_in(fault)) from None
    except DECODING_FAULTS as fault:
        raise ImageError(f"{name} is damaged or truncated ({_reason(fault)}): replace or remove it") from fault


def stored_size(source: ImageSource) -> tuple[int, int]:
    """Height and width of the upright image, of a file from its header alone."""
    name = name_of(source)
    if isinstance(source, np.ndarray):
        return source.shape[0], source.shape[1]
    if isinstance(source, Image.Image):
        return _upright_size(source)
    with _open(source, name) as image, _faults_named(name):
        return _upright_size(image)


def _upright_size(image: Image.Image) -> tuple[int, int]:
    width, height = image.size
    return (width, height) if _orientation(image) in LYING else (height, width)


def _orientation(image: Image.Image) -> int:
    return int(image.getexif().get(ExifTags.Base.Orientation, UPRIGHT))


def name_of(source: object) -> str:
    """What messages call a source; raises for what cannot be an image."""
    if isinstance(source, str | os.PathLike):
        return f"image {os.fspath(source)}"
    if isinstance(source, bytes | bytearray | memoryview):
        return f"the image given as {len(source)} bytes"
    if isinstance(source, Image.Image):
        return f"the image given ({source.width} x {source.height} px)"
    if isinstance(source, np.ndarray):
        return f"the image given as an array {list(source.shape)}"
    raise ImageError(
        f"an image is given as {type(source).__name__}; needed is a path, bytes, a PIL image or a uint8 numpy array: "
        "convert it"
    )


def _open(source: Encoded, name: str) -> Image.Image:
    try:
        return Image.open(source if isinstance(source, str | os.PathLike) else io.BytesIO(source))
    except FileNotFoundError:
        raise ImageError(f"{name} does not exist: check the path") from None
    except UnidentifiedImageError:
        raise ImageError(f"{name} is not an image that Pillow can read {_unknown(source)}") from None
    except BOMBS as fault:
        raise _too_large(name, _pixels_in(fault)) from None
    except DECODING_FAULTS as fault:
        raise ImageError(f"{name} cannot be opened ({_reason(fault)}): replace or remove it") from fault


def _reason(fault: Exception) -> str:
    """Without the path, which the message has already."""
    return fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)


def _unknown(source: Encoded) -> str:
    """What is known of a file that is not an image, and what to do with it."""
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    if path and path.suffix.lower() in CAMERA_ONLY:
        return "(HEIC): save it as JPEG"
    length = path.stat().st_size if path else len(source)  # type: ignore[arg-type] # no path, so bytes
    return f"({f'{length} bytes of another kind' if length else 'it is empty'}): remove it"


def _too_large(name: str, found: str) -> ImageError:
    return ImageError(f"{name} has {found} pixels; at most {PIXEL_LIMIT:,} are read: scale it down")


def _pixels_in(bomb: Exception) -> str:
    """The number that Pillow's message tells."""
    number = re.search(r"\d+", str(bomb))
    return f"{int(number[0]):,}" if number else "too many"


def _check_pixels(image: Image.Image, name: str) -> None:
    if image.width * image.height > PIXEL_LIMIT:
        raise _too_large(name, f"{image.width} x {image.height}")
