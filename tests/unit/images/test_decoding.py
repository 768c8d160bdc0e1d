"""Every kind of image people have becomes upright 8-bit RGB, or an error that names it."""

import io

import numpy as np
import pytest
from PIL import Image

from implanting.errors import ImageError
from implanting.images import decode
from implanting.images import decoding as module
from implanting.images.decoding import stored_size

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def two_colours() -> Image.Image:
    """Red on the left, blue on the right, 4 wide and 2 high."""
    image = Image.new("RGB", (4, 2), RED)
    image.paste(BLUE, (2, 0, 4, 2))
    return image


def as_bytes(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def test_path_bytes_image_and_array_decode_alike(tmp_path):
    image = two_colours()
    image.save(tmp_path / "a.png")
    for source in (tmp_path / "a.png", str(tmp_path / "a.png"), as_bytes(image), image, np.asarray(image)):
        decoded = decode(source)
        assert decoded.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(decoded), np.asarray(image))


def test_grey_array_becomes_rgb():
    assert decode(np.full((2, 3), 7, np.uint8)).getpixel((0, 0)) == (7, 7, 7)


@pytest.mark.parametrize(
    ("orientation", "top_left", "size"), [(1, RED, (4, 2)), (3, BLUE, (4, 2)), (6, RED, (2, 4)), (8, BLUE, (2, 4))]
)
def test_orientation_of_the_camera_is_applied(tmp_path, orientation, top_left, size):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "photo.png"
    two_colours().save(path, exif=exif)
    decoded = decode(path)
    assert (decoded.size, decoded.getpixel((0, 0))) == (size, top_left)
    assert stored_size(path) == size[::-1]


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


def test_first_frame_of_an_animation():
    frames = [Image.new("RGB", (2, 2), colour) for colour in (GREEN, BLUE)]
    animation = as_bytes(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert decode(animation).getpixel((0, 0)) == GREEN


def test_large_jpeg_is_decoded_at_a_fraction_but_never_below_twice_the_size():
    decoded = decode(as_bytes(Image.new("RGB", (1600, 800)), "JPEG"), size=84)
    assert decoded.size == (400, 200)


def test_an_image_given_is_left_as_it_is():
    image = Image.open(io.BytesIO(as_bytes(Image.new("RGB", (1600, 800)), "JPEG")))
    decode(image, size=84)
    assert image.size == (1600, 800)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello, world", "not an image that Pillow can read .12 bytes"),
        (as_bytes(Image.effect_noise((64, 64), 50), "JPEG")[:900], "damaged or truncated"),
        (as_bytes(Image.effect_noise((64, 64), 50))[:900], "damaged or truncated"),
    ],
)
def test_bad_files_are_named(tmp_path, content, message):
    path = tmp_path / "bad.jpg"
    path.write_bytes(content)
    with pytest.raises(ImageError, match=f"bad.jpg.* {message}"):
        decode(path)


def test_bad_bytes_are_named():
    with pytest.raises(ImageError, match="given as 3 bytes is not an image"):
        decode(b"abc")


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(ImageError, match=r"none\.jpg does not exist"):
        decode(tmp_path / "none.jpg")
    with pytest.raises(ImageError, match=r"cannot be opened .*directory"):
        decode(tmp_path)


@pytest.mark.parametrize(
    "array", [np.zeros((2, 2, 3), np.float32), np.zeros((3, 2, 2), np.uint8), np.zeros(5, np.uint8)]
)
def test_bad_arrays(array):
    with pytest.raises(ImageError, match="needed is uint8"):
        decode(array)


def test_floating_point_pixels_are_refused():
    with pytest.raises(ImageError, match="floating-point"):
        decode(as_bytes(Image.new("F", (2, 2), 0.5), "TIFF"))


def test_pixel_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "PIXEL_LIMIT", 7)
    with pytest.raises(ImageError, match="4 x 2 pixels; at most 7 "):
        decode(as_bytes(two_colours()))


def test_what_pillow_takes_for_a_bomb(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 3)
    with pytest.raises(ImageError, match=r"pixels .*scale it down"):
        decode(as_bytes(two_colours()))
