"""Decode images from any source to upright RGB PIL images.

The choices made: the number of pixels is checked before decoding. We use the first frame of an animation. The camera's
orientation (EXIF) is applied. A JPEG far larger than needed is decoded at a fraction of its size, which Pillow calls
draft mode. Transparent pixels are blended with white. Grey of 16 and 32 bits, and colour of 16, are scaled to 8 bits,
not clipped; `deep.py` says by which value of white. Floating-point grey is scaled by the first of 1, 255 and 65535 that
no pixel exceeds. If there is none, the darkest pixel becomes black and the brightest white. HEIC is read if
`pillow-heif` is installed (the extra `[heic]`).

Files are not trusted. We open only formats that Pillow decodes by itself; for others, such as PostScript, it would
start another program. Large images are decoded one at a time, and only if there is enough memory.
"""

import io
import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from jaxtyping import UInt8
from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError
from torch import Tensor

from implanting.errors import ImageError
from implanting.images.deep import EIGHT_BITS, SIXTEEN_BITS, WHITES, Reopen, load_deep, report_scaling, white_of
from implanting.runtime import free_memory, open_file

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP", "AVIF")
"""Pillow's names of the formats we read, the most common first; none of them needs another program."""

STEREO = "MPO"
"""Pillow's name for a JPEG that contains several pictures."""

HEIF = "HEIF"
"""pillow-heif's name for the format of phone photos."""

HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
"""The brands that follow `ftyp` at the beginning of such a file."""

TIFF_BEGINNINGS = (b"II*\0", b"MM\0*")

CAMERA_ONLY = frozenset({".heic", ".heif"})
"""Extensions of phone photos that Pillow alone cannot read; an error is better than silently skipping them."""

IMAGE_EXTENSIONS = CAMERA_ONLY | {
    ".apng", ".avif", ".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".mpo", ".pbm", ".pgm", ".png", ".pnm", ".ppm",
    ".tif", ".tiff", ".webp",
}  # fmt: skip
"""Lower-case extensions of files that count as images."""

PIXEL_LIMIT = 178_956_970
"""The largest number of pixels of an image: twice Pillow's MAX_IMAGE_PIXELS, where Pillow itself raises an error."""

DRAFT_MARGIN = 2
"""A JPEG is decoded at this many times the requested size or more, so that resizing still antialiases."""

UPRIGHT, LYING = 1, (5, 6, 7, 8)
"""EXIF orientations: the upright one, and those that swap height and width."""

Encoded = str | os.PathLike[str] | bytes | bytearray | memoryview
"""A file, or the bytes of one."""

ImageSource = Encoded | Image.Image | np.ndarray

LARGE = 40_000_000
"""Images of this many pixels or more are decoded one at a time, and only if there is enough memory."""

BYTES_PER_PIXEL, BYTES_PER_ROW = 20, 40
"""The largest memory use of decoding: Pillow takes four bytes per pixel and eight per row, in up to five copies with
transparency."""

ONE_LARGE_IMAGE = threading.Lock()

BOMBS = (Image.DecompressionBombError, Image.DecompressionBombWarning)

FLOATING_WHITES = (1, EIGHT_BITS, SIXTEEN_BITS)
"""Possible values of white in floating-point grey images."""

PREMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}
"""Modes with premultiplied alpha, and the modes to which Pillow converts them."""

CHANNELS = (1, 2, 3, 4)
"""Modes by the number of channels of an array: grey, grey and alpha, colour, colour and alpha."""


def decode(source: ImageSource, size: int | None = None) -> Image.Image:
    """Decode the source to an upright RGB image.

    With `size`, a large JPEG may be decoded smaller than stored, but with both sides at least twice `size`.
    """
    name = name_of(source)
    if isinstance(source, np.ndarray):
        return _to_rgb(_image_of_array(source), name)
    if isinstance(source, Image.Image):
        return _decode(_of_known_format(source, name), name)
    with _open(source, name) as image:
        if size is not None:
            with _faults_named(name):
                image.draft(None, (DRAFT_MARGIN * size, DRAFT_MARGIN * size))
        return _decode(image, name, partial(_open, source, name))


def _decode(image: Image.Image, name: str, again: Reopen | None = None) -> Image.Image:
    """Decode an opened image; `again` opens the same file once more."""
    _check_pixels(image, name)
    with _room_for(image, name), _faults_named(name):
        load_deep(image, again)
        upright = ImageOps.exif_transpose(image) if _orientation(image) != UPRIGHT else image
        return _to_rgb(upright, name)


@contextmanager
def _room_for(image: Image.Image, name: str) -> Iterator[None]:
    pixels = image.width * image.height
    with ONE_LARGE_IMAGE if pixels > LARGE else nullcontext():
        free = free_memory() if pixels > LARGE else None
        needed = pixels * BYTES_PER_PIXEL + image.height * BYTES_PER_ROW
        if free is not None and needed > free:
            raise ImageError(
                f"{name} has {image.width} x {image.height} pixels, which take up to {needed / 2**30:.1f} GiB of "
                f"memory to decode, and {free / 2**30:.1f} are free: scale it down"
            )
        yield


@contextmanager
def _faults_named(name: str) -> Iterator[None]:
    try:
        yield
    except ImageError:  # a ValueError that names the image already
        raise
    except BOMBS as fault:
        raise _too_large(name, _pixels_in(fault)) from None
    except MemoryError:
        raise ImageError(f"{name} needs more memory to decode than there is: scale it down") from None
    except Exception as fault:  # damaged files make Pillow's many parsers raise anything
        raise ImageError(f"{name} is damaged or truncated ({_reason(fault)}): replace or remove it") from fault


def stored_size(source: ImageSource) -> tuple[int, int]:
    """Return height and width of the upright image; of a file, only the header is read."""
    name = name_of(source)
    if isinstance(source, np.ndarray):
        return source.shape[0], source.shape[1]
    if isinstance(source, Image.Image):
        return _upright_size(_of_known_format(source, name))
    with _open(source, name) as image, _faults_named(name):
        return _upright_size(image)


def _upright_size(image: Image.Image) -> tuple[int, int]:
    width, height = image.size
    turned = image.format != "TIFF" and _orientation(image) in LYING  # Pillow gives the upright size of a TIFF
    return (width, height) if turned else (height, width)


def _orientation(image: Image.Image) -> int:
    """The camera's orientation; a value that is not one of the eight orientations is ignored."""
    noted = image.getexif().get(ExifTags.Base.Orientation, UPRIGHT)
    return int(noted) if noted in range(UPRIGHT, LYING[-1] + 1) else UPRIGHT


def name_of(source: object) -> str:
    """Name a source for messages; raise an error for anything that cannot be an image."""
    if isinstance(source, str | os.PathLike):
        return f"image {os.fspath(source)}"
    if isinstance(source, bytes | bytearray | memoryview):
        return f"the image given as {len(source)} bytes"
    if isinstance(source, Image.Image):
        return f"the image given ({source.width} x {source.height} px)"
    if isinstance(source, np.ndarray):
        return f"the image given as an array {list(source.shape)}"
    raise ImageError(
        f"an image is given as {type(source).__name__}; expected a path, bytes, a PIL image or a uint8 numpy array: "
        "convert it"
    )


@contextmanager
def _open(source: Encoded, name: str) -> Iterator[Image.Image]:
    with _stream(source, name) as stream, _opened(stream, source, name) as image:
        yield image


@contextmanager
def _stream(source: Encoded, name: str) -> Iterator[io.BufferedIOBase]:
    try:
        stream = open_file(source) if isinstance(source, str | os.PathLike) else io.BytesIO(source)
    except FileNotFoundError:
        raise ImageError(f"{name} does not exist: check the path") from None
    except (OSError, ValueError) as fault:  # a name with a NUL raises ValueError
        raise ImageError(f"{name} cannot be opened ({_reason(fault)}): replace or remove it") from fault
    with stream:
        yield stream


def _opened(stream: io.BufferedIOBase, source: Encoded, name: str) -> Image.Image:
    try:
        with _faults_named(name):
            return Image.open(cast(IO[bytes], stream), formats=_formats(stream))
    except ImageError as error:
        if isinstance(error.__cause__, UnidentifiedImageError):
            stream.seek(0)
            raise ImageError(f"{name} is not an image that can be read {_unknown(source, stream.read(4))}") from None
        raise


def _formats(stream: io.BufferedIOBase) -> tuple[str, ...]:
    beginning = stream.read(12)
    stream.seek(0)
    is_heif = beginning[4:8] == b"ftyp" and beginning[8:] in HEIF_BRANDS
    return (HEIF,) if is_heif and _reads_heif() else FORMATS


@cache
def _reads_heif() -> bool:
    try:
        import pillow_heif  # slow to load, and most users have no such photos
    except ImportError:
        return False
    pillow_heif.register_heif_opener()
    return True


def _of_known_format(image: Image.Image, name: str) -> Image.Image:
    """Check the format of a caller's image: one that is opened but not yet decoded might start another program."""
    if isinstance(image, ImageFile.ImageFile) and image.format not in (*FORMATS, STEREO, HEIF):
        raise ImageError(f"{name} is of the format {image.format}, which is not read: convert it to PNG or JPEG")
    return image


def _reason(fault: Exception) -> str:
    """Describe a fault without the path, which the message already contains."""
    return fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)


def _unknown(source: Encoded, beginning: bytes) -> str:
    """Describe a file that is not an image, and what to do with it."""
    if beginning in TIFF_BEGINNINGS:
        return "(a TIFF of an unusual kind, such as grey of 16 bits with alpha): save it as PNG"
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    if path and path.suffix.lower() in CAMERA_ONLY:
        remedy = "save it as JPEG" if _reads_heif() else "pip install 'implanting[heic]', or save it as JPEG"
        return f"(HEIC): {remedy}"
    length = path.stat().st_size if path else len(source)  # type: ignore[arg-type] # no path, so bytes
    known = "of none of the formats " + ", ".join(FORMATS)
    return f"({f'{length} bytes {known}' if length else 'it is empty'}): remove it, or convert it"


def _too_large(name: str, found: str) -> ImageError:
    return ImageError(f"{name} has {found} pixels; at most {PIXEL_LIMIT:,} are read: scale it down")


def _pixels_in(bomb: Exception) -> str:
    """Extract the number of pixels from Pillow's message."""
    number = re.search(r"\d+", str(bomb))
    return f"{int(number[0]):,}" if number else "too many"


def _check_pixels(image: Image.Image, name: str) -> None:
    if image.width * image.height > PIXEL_LIMIT:
        raise _too_large(name, f"{image.width} x {image.height}")


def _to_rgb(image: Image.Image, name: str) -> Image.Image:
    """Convert the image to mode RGB; `name` is for messages."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode == "F" or image.mode.startswith("I"):
        return Image.fromarray(_eight_bits(np.asarray(image), image.mode, name)).convert("RGB")
    if image.has_transparency_data:
        if image.mode in PREMULTIPLIED:
            image = image.convert(PREMULTIPLIED[image.mode])
        if image.mode != "RGBA":
            image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _image_of_array(array: np.ndarray) -> Image.Image:
    """Convert an array to an image, in the mode that fits its channels."""
    flat = array.ndim == 3 and array.shape[2] == 1
    if array.dtype == np.uint8 and array.size and (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in CHANNELS)):
        return Image.fromarray(array[:, :, 0] if flat else array)
    mend = "multiply by 255 and convert it" if array.dtype.kind == "f" else "convert it, with values of 0 to 255"
    raise ImageError(
        f"an image array is {array.dtype} of shape {list(array.shape)}; expected uint8 [height, width, 3] "
        f"or [height, width] (channels last; with alpha 4 or 2, grey also 1): {mend}"
    )


def _eight_bits(grey: np.ndarray, mode: str, name: str) -> UInt8[np.ndarray, "height width"]:
    darkest, white = _range(grey, mode, name)
    if mode.startswith("I;16"):
        report_scaling("grey", int(grey.max()), int(white))
    precise: type[np.floating[Any]] = np.float64 if max(abs(darkest), abs(white)) > SIXTEEN_BITS else np.float32
    scaled = (grey.astype(precise) - darkest) * (EIGHT_BITS / (white - darkest))
    return np.rint(scaled).clip(0, EIGHT_BITS).astype(np.uint8)


def _range(grey: np.ndarray, mode: str, name: str) -> tuple[float, float]:
    """Return the pixel values of black and white."""
    darkest, brightest = float(grey.min()), float(grey.max())
    if not np.isfinite(darkest + brightest):
        raise ImageError(f"{name} has pixels that are not finite numbers: replace them, or save it with 8 or 16 bits")
    if darkest >= 0 and (white := white_of(brightest, FLOATING_WHITES if mode == "F" else WHITES)):
        return 0.0, float(white)
    return darkest, max(brightest, darkest + 1)


def list_sources(images: Any) -> list[ImageSource]:
    """List the images in a sequence of paths, PIL images, bytes and arrays, or in one array of images.

    A single image is an error: a path is a sequence of letters too, and a colour image looks like a batch of grey ones.
    """
    if isinstance(images, Tensor):
        images = images.cpu().numpy()
    if isinstance(images, np.ndarray):
        return _sources_of_array(images)
    if isinstance(images, str | os.PathLike | bytes | bytearray | memoryview | Image.Image):
        raise ImageError(f"{name_of(images)} is a single image where a list is expected: put it in a list")
    if not isinstance(images, Iterable):
        raise ImageError(
            f"images are given as {type(images).__name__}; expected a list of paths, PIL images, bytes or arrays, "
            "or one uint8 array [image, height, width, 3]"
        )
    sources = [source.cpu().numpy() if isinstance(source, Tensor) else source for source in images]
    for source in sources:
        name_of(source)
    return sources


def _sources_of_array(array: np.ndarray) -> list[ImageSource]:
    if array.ndim == 1 and array.dtype.kind in "OU":  # paths or images that numpy was asked to keep
        return list_sources(array.tolist())
    colour = array.ndim == 4 and array.shape[3] in CHANNELS
    if array.dtype == np.uint8 and (colour or (array.ndim == 3 and array.shape[2] not in CHANNELS)):
        return list(array)
    one = array.dtype == np.uint8 and array.ndim in (2, 3)
    mend = "put one image alone in a list" if one else "convert it, with values of 0 to 255"
    raise ImageError(
        f"an array of images is {array.dtype} of shape {list(array.shape)}; expected uint8 [image, height, width, 3] "
        f"or [image, height, width]: {mend}"
    )
