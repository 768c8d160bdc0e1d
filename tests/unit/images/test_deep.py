"""Colour of 16 bits, and grey of 16 bits with alpha: scaled by the bits that are used, however the file stores them."""

import struct
import zlib
from functools import partial
from itertools import accumulate, product

import numpy as np
import pytest
from PIL import Image

from implanting.errors import DataWarning, ImageError
from implanting.images import decode

RED, WHITE = (255, 0, 0), (255, 255, 255)
SHORT, LONG = 3, 4
DEFLATE = 8


def deep_png(values: np.ndarray) -> bytes:
    """A PNG of 16 bits per channel, which Pillow does not write."""
    height, width, channels = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, {2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def deep_tiff(
    values: np.ndarray, order: str = "<", compressed: bool = False, planar: bool = False, tile: int = 0, **more: int
) -> bytes:
    """A TIFF of 16 bits per channel in strips of one row, or in square tiles."""
    height, width, channels = values.shape
    planes = np.moveaxis(values, 2, 0)[..., None] if planar else values[None]
    step = (tile, tile) if tile else (1, width)
    parts = []
    for plane in planes:
        for top in range(0, height, step[0]):
            for left in range(0, width, step[1]):
                part = np.zeros((*step, plane.shape[2]), f"{order}u2")
                found = plane[top : top + step[0], left : left + step[1]]
                part[: found.shape[0], : found.shape[1]] = found
                parts.append(zlib.compress(part.tobytes()) if compressed else part.tobytes())
    tags = {
        256: [width], 257: [height], 258: [16] * channels, 259: [DEFLATE if compressed else 1], 262: [2],
        274: [more.get("orientation", 1)], 277: [channels], 284: [2 if planar else 1],
    }  # fmt: skip
    tags |= {322: [tile], 323: [tile], 324: [0] * len(parts), 325: [len(part) for part in parts]} if tile else {}
    tags |= {} if tile else {273: [0] * len(parts), 278: [1], 279: [len(part) for part in parts]}
    if channels == 4:
        tags[338] = [more.get("extra", 2)]
    return _tiff(tags, parts, order)


def _tiff(tags: dict[int, list[int]], parts: list[bytes], order: str) -> bytes:
    longs = (273, 279, 324, 325)
    lengths = {tag: len(values) * (4 if tag in longs else 2) for tag, values in tags.items()}
    outside = [tag for tag in sorted(tags) if lengths[tag] > 4]
    first = 8 + 2 + 12 * len(tags) + 4
    places = dict(zip(outside, accumulate((lengths[tag] for tag in outside), initial=first), strict=False))
    data_at = first + sum(lengths[tag] for tag in outside)
    offsets = list(accumulate((len(part) for part in parts), initial=data_at))[:-1]
    tags[324 if 324 in tags else 273] = offsets
    packed = {tag: struct.pack(f"{order}{len(tags[tag])}{'I' if tag in longs else 'H'}", *tags[tag]) for tag in tags}
    entries = [
        struct.pack(f"{order}HHI", tag, LONG if tag in longs else SHORT, len(tags[tag]))
        + (struct.pack(f"{order}I", places[tag]) if tag in places else packed[tag].ljust(4, b"\0"))
        for tag in sorted(tags)
    ]
    start = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HIH", 42, 8, len(tags))
    return start + b"".join(entries) + bytes(4) + b"".join(packed[tag] for tag in outside) + b"".join(parts)


STORED = {
    f"tiff, {order}" + ", compressed" * compressed + ", planar" * planar + ", tiled" * bool(tile): partial(
        deep_tiff, order=order, compressed=compressed, planar=planar, tile=tile
    )
    for order, compressed, planar, tile in product("<>", (False, True), (False, True), (0, 16))
}
DEEP = {"png": deep_png, **STORED}


@pytest.mark.parametrize("kind", DEEP)
@pytest.mark.parametrize("bits", [10, 12, 14])
def test_colour_of_fewer_bits_in_sixteen_is_scaled_and_said(kind, bits):
    white = 2**bits - 1
    values = np.array([[[0, white // 2, white], [white // 4, 3, white // 3]], [[5, 6, 7], [8, 9, white]]], np.uint16)
    with pytest.warns(DataWarning, match=f"a colour image of 16 bits has no pixel above {white}: .*of {bits} bits"):
        decoded = np.asarray(decode(DEEP[kind](values)))
    assert np.array_equal(decoded, np.rint(values * (255 / white)))


@pytest.mark.parametrize("kind", DEEP)
def test_colour_of_sixteen_bits_is_read_to_a_level_and_without_a_word(kind, tmp_path):
    values = np.random.default_rng(0).integers(0, 65536, (40, 30, 3)).astype(np.uint16)
    path = tmp_path / "deep"
    path.write_bytes(DEEP[kind](values))
    for source in (path, path.read_bytes(), Image.open(path)):
        assert np.abs(np.asarray(decode(source)).astype(int) - values / 257).max() <= 1


@pytest.mark.parametrize("encode", [deep_png, *STORED.values()])
def test_alpha_of_deep_colour_is_not_scaled(encode):
    values = np.array([[[4095, 0, 0, 65535], [4095, 4095, 4095, 0]]], np.uint16)
    with pytest.warns(DataWarning, match="12 bits"):
        decoded = decode(encode(values))
    assert [decoded.getpixel((x, 0)) for x in (0, 1)] == [RED, WHITE]


@pytest.mark.parametrize("planar", [False, True])
def test_a_fourth_channel_of_no_meaning_is_ignored(planar):
    values = np.array([[[4095, 0, 0, 65535], [0, 0, 4095, 0]]], np.uint16)
    with pytest.warns(DataWarning, match="12 bits"):
        decoded = decode(deep_tiff(values, planar=planar, extra=0))
    assert [decoded.getpixel((x, 0)) for x in (0, 1)] == [RED, (0, 0, 255)]


@pytest.mark.parametrize("bits", [10, 12, 14])
def test_grey_with_alpha_is_scaled_and_said(bits):
    white = 2**bits - 1
    values = np.array([[[white, 65535], [white // 2, 65535], [0, 0]], [[3, 65535], [0, 65535], [0, 32768]]], np.uint16)
    with pytest.warns(DataWarning, match=f"a grey image of 16 bits has no pixel above {white}: .*of {bits} bits"):
        decoded = np.asarray(decode(deep_png(values)))
    expected = [[255, round(255 * (white // 2) / white), 255], [round(3 * 255 / white), 0, 127]]
    assert np.array_equal(decoded, np.repeat(np.array(expected)[..., None], 3, axis=2))


def test_bright_grey_with_alpha_is_read_without_a_word():
    values = np.array([[[65535, 65535], [32768, 65535], [0, 0]]], np.uint16)
    assert np.asarray(decode(deep_png(values)))[0, :, 0].tolist() == [255, 128, 255]


@pytest.mark.parametrize("planar", [False, True])
def test_deep_colour_is_turned_upright(planar):
    values = np.zeros((1, 2, 3), np.uint16)
    values[0, 0] = 4095, 0, 0
    with pytest.warns(DataWarning, match="12 bits"):
        decoded = decode(deep_tiff(values, planar=planar, orientation=6))
    assert (decoded.size, decoded.getpixel((0, 0))) == ((1, 2), RED)


@pytest.mark.parametrize("encode", [deep_png, deep_tiff, partial(deep_tiff, planar=True)])
def test_black_deep_colour_needs_no_word(encode):
    assert decode(encode(np.zeros((1, 1, 3), np.uint16))).getpixel((0, 0)) == (0, 0, 0)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_planar_file_that_was_cut_off_is_an_error(compressed):
    whole = deep_tiff(np.random.default_rng(0).integers(0, 65536, (40, 30, 3)).astype(np.uint16), "<", compressed, True)
    with pytest.raises(ImageError, match="damaged or truncated"):
        decode(whole[: len(whole) // 2])


def test_a_tiff_that_pillow_does_not_know_is_called_one():
    grey_and_alpha = deep_tiff(np.zeros((1, 1, 2), np.uint16))
    with pytest.raises(ImageError, match=r"read \(a TIFF of an unusual kind"):
        decode(grey_and_alpha)
