"""Turn a client's bytes into pixels for the network, and into a picture and a thumbnail to keep.

The client's bytes are decoded and thrown away. The pictures that are kept were encoded here, so they carry no metadata
and nothing else that is not pixels. The network sees the photo as it was sent, as in `implanting predict`.
"""

import hashlib
import io
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from implanting.errors import ImageError
from implanting.images import decode, name_of, resize, stored_size

LONGEST = 1024
"""Longer side of the pictures that are kept, in pixels."""

SMALL = 256
"""Pictures up to this size are kept without loss: drawings and icons suffer from JPEG."""

THUMBNAIL = 192
"""Side of the square thumbnails."""

PIXELS = 100_000_000
"""The largest number of pixels of a photo; decoding takes three bytes per pixel."""

QUALITY = 92


@dataclass(frozen=True, eq=False)
class Picture:
    """A photo as it is kept."""

    name: str
    """The client's name for it; shown, and never part of a path."""
    digest: str
    """SHA-256 of what the client sent."""
    width: int
    height: int
    content: bytes
    suffix: str
    thumbnail: bytes
    pixels: UInt8[np.ndarray, "size size 3"]
    """The input of the network."""


def accept(content: bytes, name: str, size: int) -> Picture:
    """Decode a client's photo, for a network that sees `size` pixels square."""
    try:
        height, width = stored_size(content)
        if height * width > PIXELS:
            raise ImageError(
                f"{name_of(content)} has {width} x {height} pixels; at most {PIXELS:,} are accepted: scale it down"
            )
        shown = decode(content, LONGEST // 2)
        seen = resize(decode(content, size), size)
    except ImageError as error:
        raise ImageError(in_words(error, content, name)) from error
    small = thumbnail(shown)
    shown.thumbnail((LONGEST, LONGEST), Image.Resampling.BILINEAR)
    lossless = max(shown.size) <= SMALL
    return Picture(
        name=name,
        digest=hashlib.sha256(content).hexdigest(),
        width=width,
        height=height,
        content=encoded(shown, "PNG" if lossless else "JPEG"),
        suffix=".png" if lossless else ".jpg",
        thumbnail=small,
        pixels=seen,
    )


def in_words(error: ImageError, content: bytes, name: str) -> str:
    """The library's sentence about a photo, with the client's name for it."""
    return str(error).replace(name_of(content), f"the file {name!r}")


def thumbnail(image: Image.Image) -> bytes:
    """A small square of the centre of a picture."""
    return encoded(Image.fromarray(resize(image, THUMBNAIL)), "JPEG")


def encoded(image: Image.Image, kind: str) -> bytes:
    """The pixels of an image as a file, and nothing but them."""
    bare = Image.fromarray(np.asarray(image))
    file = io.BytesIO()
    bare.save(file, kind, **({"quality": QUALITY, "subsampling": 0} if kind == "JPEG" else {}))
    return file.getvalue()
