"""Grey, palettes, alpha, inks, 16 bits, 32 bits and floating point: all become 8-bit RGB."""

import io

import numpy as np
import pytest
from PIL import Image

from implanting.errors import DataWarning, ImageError
from implanting.images import decode

RED, WHITE = (255, 0, 0), (255, 255, 255)


def two_colours() -> Image.Image:
    image = Image.new("RGB", (4, 2), RED)
    image.paste((0, 0, 255), (2, 0, 4, 2))
    return image


def as_bytes(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def levels_of(image: Image.Image) -> list[int]:
    return np.asarray(image)[0, :, 0].tolist()


@pytest.mark.parametrize("mode", ["L", "1", "P", "CMYK", "YCbCr", "HSV"])
def test_other_modes(mode):
    decoded = decode(Image.new("RGB", (2, 2), WHITE).convert(mode))
    assert (decoded.mode, decoded.getpixel((1, 1))) == ("RGB", WHITE)


def test_cmyk_jpeg():
    red, green, blue = decode(as_bytes(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG")).getpixel((4, 4))
    assert (red > 240, green < 15, blue < 15) == (True, True, True)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (Image.new("RGBA", (1, 1), (255, 0, 0, 0)), WHITE),
        (Image.new("RGBA", (1, 1), (0, 0, 0, 128)), (127, 127, 127)),
        (Image.new("LA", (1, 1), (0, 0)), WHITE),
    ],
)
def test_transparency_lies_on_white(image, expected):
    assert decode(as_bytes(image)).getpixel((0, 0)) == expected


def test_transparent_colour_of_palette_and_rgb_files():
    assert decode(as_bytes(two_colours(), transparency=RED)).getpixel((0, 0)) == WHITE
    palette = two_colours().quantize(2)
    assert decode(as_bytes(palette, transparency=palette.getpixel((0, 0)))).getpixel((0, 0)) == WHITE


def test_sixteen_bits_are_scaled_not_clipped():
    levels = np.array([[0, 257, 32896, 65535]], np.uint16)
    decoded = decode(as_bytes(Image.fromarray(levels)))
    assert [decoded.getpixel((x, 0))[0] for x in range(4)] == [0, 1, 128, 255]


@pytest.mark.parametrize(("mode", "colour"), [("LA", (0, 128)), ("RGBA", (0, 0, 0, 128)), ("PA", (0, 128))])
def test_images_in_memory_with_alpha(mode, colour):
    assert decode(Image.new(mode, (2, 2), colour)).getpixel((0, 0)) == (127, 127, 127)


@pytest.mark.parametrize(("mode", "premultiplied"), [("LA", "La"), ("RGBA", "RGBa")])
def test_premultiplied_alpha(mode, premultiplied):
    image = Image.new(mode, (2, 2), (100, 128) if mode == "LA" else (100, 100, 100, 128))
    found = decode(image.convert(premultiplied)).getpixel((0, 0))
    np.testing.assert_allclose(found, decode(image).getpixel((0, 0)), atol=1)


@pytest.mark.parametrize("dtype", ["<u2", ">u2"])
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_of_either_order(dtype, kind):
    levels = np.array([[0, 257, 32896, 65535]], np.uint16)
    assert levels_of(decode(as_bytes(Image.fromarray(levels.astype(dtype)), kind))) == [0, 1, 128, 255]


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize(("white", "bits"), [(200, 8), (1023, 10), (4000, 12), (16383, 14)])
def test_fewer_bits_in_sixteen_are_not_read_nearly_black(kind, white, bits):
    levels = np.array([[0, white // 2, white]], np.uint16)
    with pytest.warns(DataWarning, match=f"no pixel above {2**bits - 1}: it is read as one of {bits} bits"):
        decoded = decode(as_bytes(Image.fromarray(levels), kind))
    assert decoded.getpixel((2, 0))[0] == round(255 * white / (2**bits - 1))


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([0.0, 0.25, 0.5, 1.0], [0, 64, 128, 255]),
        ([0.0, 1.0, 100.4, 255.0], [0, 1, 100, 255]),
        ([0.0, 257.0, 32896.0, 65535.0], [0, 1, 128, 255]),
        ([-1.0, 0.0, 0.0, 1.0], [0, 128, 128, 255]),
        ([0.0, 0.0, 0.0, 1e6], [0, 0, 0, 255]),
        ([7e9, 7e9, 7e9, 7e9], [0, 0, 0, 0]),
    ],
)
def test_floating_point_is_scaled_by_its_range(levels, expected):
    image = Image.fromarray(np.array([levels], np.float32))
    assert levels_of(decode(as_bytes(image, "TIFF"))) == expected


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([0, 1, 100, 255], [0, 1, 100, 255]),
        ([0, 257, 32896, 65535], [0, 1, 128, 255]),
        ([0, 0, 2048, 4095], [0, 0, 128, 255]),
        ([0, 0, 0, 2**31 - 1], [0, 0, 0, 255]),
    ],
)
def test_thirty_two_bits(levels, expected):
    assert levels_of(decode(as_bytes(Image.fromarray(np.array([levels], np.int32)), "TIFF"))) == expected


def test_pixels_that_are_no_numbers_are_refused():
    with pytest.raises(ImageError, match="not finite numbers"):
        decode(as_bytes(Image.fromarray(np.array([[0, np.nan]], np.float32)), "TIFF"))


@pytest.mark.parametrize(
    ("shape", "pixel"), [((2, 2), 9), ((2, 2, 1), 9), ((2, 2, 2), 246), ((2, 2, 3), 9), ((2, 2, 4), 246)]
)
def test_arrays(shape, pixel):
    """Alpha 9 of 255 over white leaves 246 of a 9."""
    assert decode(np.full(shape, 9, np.uint8)).getpixel((1, 1)) == (pixel, pixel, pixel)


def test_an_array_may_be_a_view():
    array = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    np.testing.assert_array_equal(np.asarray(decode(array[::-2, 1:])), array[::-2, 1:])
