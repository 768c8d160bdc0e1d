"""Colour images of 16 bits per channel, of which Pillow keeps the high bytes only.

Files do not say which value is white, and cameras store 10, 12 or 14 bits in 16, so white is the largest value of the
smallest such number of bits that no pixel exceeds; a `DataWarning` reports it. A file whose high bytes are dark is
therefore read once more for the low ones. A TIFF may store its channels one after the other; Pillow reads such a file
with 16 bits wrongly, or without the low bytes, so each channel is read as a grey TIFF of its own.
"""

import io
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import accumulate
from typing import IO, Any, cast

import numpy as np
from jaxtyping import UInt16
from PIL import ExifTags, Image
from PIL.TiffImagePlugin import (
    BITSPERSAMPLE,
    COMPRESSION,
    EXTRASAMPLES,
    FILLORDER,
    IMAGELENGTH,
    IMAGEWIDTH,
    PHOTOMETRIC_INTERPRETATION,
    PLANAR_CONFIGURATION,
    PREDICTOR,
    ROWSPERSTRIP,
    SAMPLESPERPIXEL,
    STRIPBYTECOUNTS,
    STRIPOFFSETS,
    TILEBYTECOUNTS,
    TILELENGTH,
    TILEOFFSETS,
    TILEWIDTH,
    ImageFileDirectory_v2,
    TiffImageFile,
)

from implanting.errors import DataWarning

EIGHT_BITS, SIXTEEN_BITS = 255, 65535

WHITES = (EIGHT_BITS, 1023, 4095, 16383, SIXTEEN_BITS)
"""Possible values of white in images of 16 bits or more: the largest numbers of 8, 10, 12, 14 and 16 bits."""

Reopen = Callable[[], AbstractContextManager[Image.Image]]

COLOUR = ("RGB", "RGBA", "RGBX")
"""Modes of colour images."""

SWAPPED = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}
"""The order of two bytes under which Pillow, which keeps the high byte of the two, keeps the low one."""

GREY_AND_ALPHA, ITS_BYTES = "LA;16B", "RGBA"
"""Pillow's name for the four bytes of a pixel of grey with alpha, and the name under which it keeps all four."""

IN_PLANES, BLACK_IS_ZERO, MULTIPLIED_BY_ALPHA = 2, 1, 1
"""Values of a TIFF's tags: channels one after the other; grey whose smallest value is black; colours times alpha."""

KEPT_TAGS = (
    IMAGEWIDTH, IMAGELENGTH, COMPRESSION, PREDICTOR, FILLORDER, ROWSPERSTRIP, TILEWIDTH, TILELENGTH,
    ExifTags.Base.Orientation,
)  # fmt: skip
"""Tags of a TIFF that hold for each of its channels too."""


def load_deep(image: Image.Image, again: Reopen | None) -> None:
    """Load an opened image; scale its colours in place if they have 16 bits and no pixel exceeds 14 or fewer.

    `again` opens the same file once more; without it, only channels that are stored one after the other are scaled.
    """
    values, rawmode = _planes(image), _rawmode_of_low_bytes(image)
    if values is not None:
        del image.tile[1:]  # type: ignore[attr-defined] # of ImageFile; Pillow fails at a channel without meaning
    image.load()
    if values is None and rawmode is not None and again is not None and _is_dark(image):
        values = _reread(image, rawmode, again)
    if values is not None:
        _scale(image, values, "grey" if rawmode == ITS_BYTES else "colour")


def white_of(brightest: int | float, whites: Sequence[int] = WHITES) -> int | None:
    """Return the first white that is no darker than the brightest pixel; None if all are darker."""
    return next((white for white in whites if brightest <= white), None)


def report_scaling(kind: str, brightest: int, white: int) -> None:
    """Warn that an image of 16 bits is read as one of fewer."""
    if brightest > 0 and white < SIXTEEN_BITS:
        warnings.warn(
            f"a {kind} image of 16 bits has no pixel above {white}: it is read as one of {white.bit_length()} bits, as "
            "cameras save them, and not as a dark one",
            DataWarning,
            stacklevel=3,
        )


def _is_dark(image: Image.Image) -> bool:
    return max(high for _, high in cast(Any, image.getextrema())[:3]) <= WHITES[-2] >> 8


def _scale(image: Image.Image, values: UInt16[np.ndarray, "height width channel"], kind: str) -> None:
    """Replace the image's pixels by the values as 8 bits: colours as bright as white allows, alpha as it is."""
    pixels = np.array(image)
    brightest = int(values[..., :3].max(initial=0))
    white = white_of(brightest) or SIXTEEN_BITS
    report_scaling(kind, brightest, white)
    eight_bits = np.rint(np.arange(SIXTEEN_BITS + 1) * (EIGHT_BITS / white)).clip(0, EIGHT_BITS).astype(np.uint8)
    for channel in range(pixels.shape[2]):  # one at a time: large images would take much memory
        values_of_channel = values[..., channel]
        pixels[..., channel] = eight_bits[values_of_channel] if channel < 3 else values_of_channel >> 8
    image.paste(Image.fromarray(pixels, image.mode))


def _rawmode_of_low_bytes(image: Image.Image) -> str | None:
    """Return the name under which Pillow reads the low bytes of colour of 16 bits; None for other images."""
    tile = list(getattr(image, "tile", ()))
    if image.mode not in COLOUR or not tile:
        return None
    rawmode = _rawmode(tile[0].args)
    if rawmode == GREY_AND_ALPHA:
        return ITS_BYTES
    colour, _, order = rawmode.partition(";16")
    return f"{colour};16{SWAPPED[order]}" if colour in COLOUR and order in SWAPPED else None


def _rawmode(arguments: Any) -> str:
    return str(arguments if isinstance(arguments, str) else (arguments or [""])[0])


def _reread(image: Image.Image, rawmode: str, again: Reopen) -> UInt16[np.ndarray, "height width channel"]:
    with again() as same:
        same.tile = [tile._replace(args=_with_rawmode(tile.args, rawmode)) for tile in same.tile]  # type: ignore[attr-defined] # of ImageFile
        same.load()
        found = np.asarray(same)
    if rawmode == ITS_BYTES:
        grey, alpha = (found[..., at].astype(np.uint16) << 8 | found[..., at + 1] for at in (0, 2))
        return np.stack([grey, grey, grey, alpha], axis=2)
    values = np.asarray(image).astype(np.uint16)
    values <<= 8
    values |= found
    return values


def _with_rawmode(arguments: Any, rawmode: str) -> Any:
    return rawmode if isinstance(arguments, str) else (rawmode, *arguments[1:])


def _planes(image: Image.Image) -> UInt16[np.ndarray, "height width channel"] | None:
    """Read the channels of a TIFF of 16 bits that stores one after the other; None for other images."""
    if not isinstance(image, TiffImageFile) or image.mode not in COLOUR or not image.tile:
        return None
    tags, channels = image.tag_v2, len(image.getbands())
    in_planes = tags.get(PLANAR_CONFIGURATION) == IN_PLANES and set(tags.get(BITSPERSAMPLE, ())) == {16}
    if not in_planes or MULTIPLIED_BY_ALPHA in tags.get(EXTRASAMPLES, ()):
        return None
    tiled = TILEOFFSETS in tags
    parts = _parts(image, *((TILEOFFSETS, TILEBYTECOUNTS) if tiled else (STRIPOFFSETS, STRIPBYTECOUNTS)))
    each = len(parts) // tags[SAMPLESPERPIXEL]
    return np.stack([_grey(tags, parts[at * each :][:each], tiled) for at in range(channels)], axis=2)


def _parts(image: TiffImageFile, offsets_tag: int, lengths_tag: int) -> list[bytes]:
    """Read the strips or tiles of a TIFF."""
    stream, tags = cast(IO[bytes], image.fp), image.tag_v2
    offsets, lengths = tags[offsets_tag], tags.get(lengths_tag, ())
    if len(offsets) != len(lengths) or sum(lengths) > stream.seek(0, io.SEEK_END):
        raise ValueError("its channels are not all in the file")
    parts = []
    for offset, length in zip(offsets, lengths, strict=True):
        stream.seek(offset)
        parts.append(stream.read(length))
    return parts


def _grey(tags: ImageFileDirectory_v2, parts: list[bytes], tiled: bool) -> UInt16[np.ndarray, "height width"]:
    """Decode the strips or tiles of one channel as a grey TIFF."""
    start = tags.prefix + (b"*\0" if tags.prefix == b"II" else b"\0*") + bytes(4)
    own = ImageFileDirectory_v2(start)
    for tag in KEPT_TAGS:
        if tag in tags:
            own[tag] = tags[tag]
    own[BITSPERSAMPLE], own[SAMPLESPERPIXEL], own[PHOTOMETRIC_INTERPRETATION] = 16, 1, BLACK_IS_ZERO
    own[TILEBYTECOUNTS if tiled else STRIPBYTECOUNTS] = tuple(map(len, parts))
    offsets = tuple(accumulate(map(len, parts[:-1]), initial=0))
    if tiled:
        own[TILEOFFSETS] = offsets
        beginning = len(own.tobytes(len(start))) + len(start)
        own[TILEOFFSETS] = tuple(offset + beginning for offset in offsets)
    else:
        own[STRIPOFFSETS] = offsets  # Pillow adds the length of the header to these
    file = io.BytesIO()
    own.save(file)
    file.write(b"".join(parts))
    with Image.open(file, formats=("TIFF",)) as grey:
        return np.asarray(grey).astype(np.uint16)
