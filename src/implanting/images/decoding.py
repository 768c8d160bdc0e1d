"""Images in any form people have them -> upright RGB PIL images.

The choices made: the number of pixels is checked before they are decoded; of an animation the first frame counts; the
camera's orientation (EXIF) is applied; a JPEG far larger than needed is decoded at a fraction of its size, which
Pillow calls draft mode. Transparency lies on white. Grey of 16 and 32 bits is scaled to 8 bits, not clipped: files do
not say which number is white, and cameras put 10, 12 or 14 bits into 16, so it is the largest number of the fewest such
bits that no pixel exceeds (of 16 bits, a `DataWarning` says so). Floating-point grey is scaled by the first of 1, 255
and 65535 that no pixel exceeds. Where there is none, the darkest pixel is black and the brightest white. HEIC is read
where `pillow-heif` is installed, which is the extra `[heic]`.

Files come from anywhere. Only formats that Pillow decodes by itself are opened: for others, such as PostScript, it
would start another program. Large images are decoded one at a time, and only where there is memory for them.
"""

import io
import os
import re
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from jaxtyping import UInt8
from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError
from torch import Tensor

from implanting.errors import DataWarning, ImageError
from implanting.runtime import free_memory, open_file

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP", "AVIF")
"""The formats that are read, by Pillow's names, the commonest first; none of them needs another program."""

STEREO = "MPO"
"""The name that Pillow gives to a JPEG of several pictures."""

HEIF = "HEIF"
"""The name that pillow-heif gives to photos of telephones."""

HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
"""What stands after `ftyp` at the beginning of such a file."""

CAMERA_ONLY = frozenset({".heic", ".heif"})
"""Photos of telephones that Pillow alone does not read: an error is better than passing over them."""

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

LARGE = 40_000_000
"""Pixels from which an image is decoded only when no other large one is, and only where there is memory for it."""

BYTES_PER_PIXEL = 20
"""Memory that decoding takes at most: four bytes in Pillow, in up to five copies where there is transparency."""

ONE_LARGE_IMAGE = threading.Lock()

BOMBS = (Image.DecompressionBombError, Image.DecompressionBombWarning)

EIGHT_BITS, SIXTEEN_BITS = 255, 65535

WHITES = (EIGHT_BITS, 1023, 4095, 16383, SIXTEEN_BITS)
"""What may stand for white in grey of 16 bits or more: the largest numbers of 8, 10, 12, 14 and 16 bits."""

PREMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}
"""Modes whose colours are multiplied by their alpha, and what Pillow converts them to."""

CHANNELS = (1, 2, 3, 4)
"""Of arrays: grey, grey and alpha, colour, colour and alpha."""


def decode(source: ImageSource, size: int | None = None) -> Image.Image:
    """The source as an upright RGB image.

    With `size`, a large JPEG may come back smaller than stored, but with both sides at least twice `size`.
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
        return _decode(image, name)


def _decode(image: Image.Image, name: str) -> Image.Image:
    _check_pixels(image, name)
    with _room_for(image, name), _faults_named(name):
        image.load()
        upright = ImageOps.exif_transpose(image) if _orientation(image) != UPRIGHT else image
        return _to_rgb(upright, name)


@contextmanager
def _room_for(image: Image.Image, name: str) -> Iterator[None]:
    pixels = image.width * image.height
    with ONE_LARGE_IMAGE if pixels > LARGE else nullcontext():
        free = free_memory() if pixels > LARGE else None
        if free is not None and pixels * BYTES_PER_PIXEL > free:
            raise ImageError(
                f"{name} has {image.width} x {image.height} pixels, which take up to "
                f"{pixels * BYTES_PER_PIXEL / 2**30:.1f} GiB of memory to decode, and {free / 2**30:.1f} are free: "
                "scale it down"
            )
        yield


@contextmanager
def _faults_named(name: str) -> Iterator[None]:
    try:
        yield
    except ImageError:  # a ValueError that is named already
        raise
    except BOMBS as fault:
        raise _too_large(name, _pixels_in(fault)) from None
    except MemoryError:
        raise ImageError(f"{name} needs more memory to decode than there is: scale it down") from None
    except Exception as fault:  # whatever a damaged file leads Pillow's many parsers to
        raise ImageError(f"{name} is damaged or truncated ({_reason(fault)}): replace or remove it") from fault


def stored_size(source: ImageSource) -> tuple[int, int]:
    """Height and width of the upright image, of a file from its header alone."""
    name = name_of(source)
    if isinstance(source, np.ndarray):
        return source.shape[0], source.shape[1]
    if isinstance(source, Image.Image):
        return _upright_size(_of_known_format(source, name))
    with _open(source, name) as image, _faults_named(name):
        return _upright_size(image)


def _upright_size(image: Image.Image) -> tuple[int, int]:
    width, height = image.size
    turned = image.format != "TIFF" and _orientation(image) in LYING  # of a TIFF, Pillow gives the upright size
    return (width, height) if turned else (height, width)


def _orientation(image: Image.Image) -> int:
    """As the camera noted it; a note that is none of the eight orientations says nothing."""
    noted = image.getexif().get(ExifTags.Base.Orientation, UPRIGHT)
    return int(noted) if noted in range(UPRIGHT, LYING[-1] + 1) else UPRIGHT


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
    except (OSError, ValueError) as fault:  # a ValueError for a name that holds NUL
        raise ImageError(f"{name} cannot be opened ({_reason(fault)}): replace or remove it") from fault
    with stream:
        yield stream


def _opened(stream: io.BufferedIOBase, source: Encoded, name: str) -> Image.Image:
    try:
        with _faults_named(name):
            return Image.open(cast(IO[bytes], stream), formats=_formats(stream))
    except ImageError as error:
        if isinstance(error.__cause__, UnidentifiedImageError):
            raise ImageError(f"{name} is not an image that can be read {_unknown(source)}") from None
        raise


def _formats(stream: io.BufferedIOBase) -> tuple[str, ...]:
    beginning = stream.read(12)
    stream.seek(0)
    is_heif = beginning[4:8] == b"ftyp" and beginning[8:] in HEIF_BRANDS
    return (HEIF,) if is_heif and _reads_heif() else FORMATS


@cache
def _reads_heif() -> bool:
    try:
        import pillow_heif  # here, as it is slow to load and most people have none of these photos
    except ImportError:
        return False
    pillow_heif.register_heif_opener()
    return True


def _of_known_format(image: Image.Image, name: str) -> Image.Image:
    """An image of the caller's; one that was opened and is not decoded yet might still start another program."""
    if isinstance(image, ImageFile.ImageFile) and image.format not in (*FORMATS, STEREO, HEIF):
        raise ImageError(f"{name} is of the format {image.format}, which is not read: convert it to PNG or JPEG")
    return image


def _reason(fault: Exception) -> str:
    """Without the path, which the message has already."""
    return fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)


def _unknown(source: Encoded) -> str:
    """What is known of a file that is not an image, and what to do with it."""
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
    """The number that Pillow's message tells."""
    number = re.search(r"\d+", str(bomb))
    return f"{int(number[0]):,}" if number else "too many"


def _check_pixels(image: Image.Image, name: str) -> None:
    if image.width * image.height > PIXEL_LIMIT:
        raise _too_large(name, f"{image.width} x {image.height}")


def _to_rgb(image: Image.Image, name: str) -> Image.Image:
    """The image in mode RGB; `name` is for messages."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode == "F" or image.mode.startswith("I"):
        return Image.fromarray(_eight_bits(np.asarray(image), image.mode, name)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert(PREMULTIPLIED.get(image.mode, image.mode)).convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _image_of_array(array: np.ndarray) -> Image.Image:
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
    darkest, white = _range(grey, mode, name)
    if mode.startswith("I;16") and grey.max() > 0 and white < SIXTEEN_BITS:
        warnings.warn(
            f"a grey image of 16 bits has no pixel above {white:.0f}: it is read as one of {int(white).bit_length()} "
            "bits, as cameras save them, and not as a dark one",
            DataWarning,
            stacklevel=2,
        )
    precise: type[np.floating[Any]] = np.float64 if max(abs(darkest), abs(white)) > SIXTEEN_BITS else np.float32
    scaled = (grey.astype(precise) - darkest) * (EIGHT_BITS / (white - darkest))
    return np.rint(scaled).clip(0, EIGHT_BITS).astype(np.uint8)


def _range(grey: np.ndarray, mode: str, name: str) -> tuple[float, float]:
    """The numbers that stand for black and white."""
    darkest, brightest = float(grey.min()), float(grey.max())
    if not np.isfinite(darkest + brightest):
        raise ImageError(f"{name} has pixels that are no finite numbers: replace them, or save it with 8 or 16 bits")
    if darkest >= 0:
        whites = (1, EIGHT_BITS, SIXTEEN_BITS) if mode == "F" else WHITES
        if white := next((white for white in whites if brightest <= white), None):
            return 0.0, float(white)
    return darkest, max(brightest, darkest + 1)


def list_sources(images: Any) -> list[ImageSource]:
    """The images of a list of paths, PIL images, bytes and arrays, or of one array [image, height, width (, channel)].

    One image alone is refused: a path is a sequence of letters, and a colour image looks like a batch of grey ones.
    """
    if isinstance(images, Tensor):
        images = images.cpu().numpy()
    if isinstance(images, np.ndarray):
        return _sources_of_array(images)
    if isinstance(images, str | os.PathLike | bytes | bytearray | memoryview | Image.Image):
        raise ImageError(f"{name_of(images)} stands alone where several images are taken: put it in a list")
    if not isinstance(images, Iterable):
        raise ImageError(
            f"images are given as {type(images).__name__}; needed is a list of paths, PIL images, bytes or arrays, "
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
        f"an array of images is {array.dtype} of shape {list(array.shape)}; needed is uint8 [image, height, width, 3] "
        f"or [image, height, width]: {mend}"
    )
