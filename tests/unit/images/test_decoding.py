"""Every kind of image people have becomes upright 8-bit RGB, or an error that names it."""

import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

from implanting.errors import ImageError
from implanting.images import decode, load, resize
from implanting.images import decoding as module
from implanting.images.decoding import name_of, stored_size

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
    with Image.open(path) as opened:
        for source in (path, path.read_bytes(), opened, np.asarray(decoded)):
            assert stored_size(source) == size[::-1]


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_first_frame_of_an_animation(kind):
    frames = [Image.new("RGB", (2, 2), colour) for colour in (GREEN, BLUE)]
    animation = as_bytes(frames[0], kind, save_all=True, append_images=frames[1:])
    np.testing.assert_allclose(decode(animation).getpixel((0, 0)), GREEN, atol=2)


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
        (b"hello, world", "not an image that can be read .12 bytes"),
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
    with pytest.raises(ImageError, match=r"cannot be opened .it is a folder"):
        decode(tmp_path)


@pytest.mark.parametrize(
    "array", [np.zeros((2, 2, 3), np.float32), np.zeros((3, 2, 7), np.uint8), np.zeros(5, np.uint8)]
)
def test_bad_arrays(array):
    with pytest.raises(ImageError, match="expected uint8"):
        decode(array)


@pytest.mark.parametrize("source", [None, 5, io.BytesIO(b"abc"), torch.zeros(2, 2, 3)])
def test_what_cannot_be_an_image_is_named(source):
    with pytest.raises(ImageError, match=f"given as {type(source).__name__}; expected a path, bytes"):
        name_of(source)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_of_every_kind(kind):
    assert decode(kind(as_bytes(two_colours()))).getpixel((0, 0)) == RED


def test_names_with_spaces_and_letters_of_any_script(tmp_path):
    path = tmp_path / "Eiche 樹 дуб (1)\n.PNG"
    two_colours().save(path)
    assert decode(path).getpixel((0, 0)) == decode(str(path)).getpixel((0, 0)) == RED


def test_photos_of_telephones(tmp_path):
    pillow_heif = pytest.importorskip("pillow_heif")
    photo = Image.fromarray(np.linspace(0, 255, 64 * 48 * 3).astype(np.uint8).reshape(48, 64, 3))
    pillow_heif.from_pillow(photo).save(tmp_path / "a.HEIC", quality=-1)
    for source in (tmp_path / "a.HEIC", (tmp_path / "a.HEIC").read_bytes()):
        assert np.abs(np.asarray(decode(source), int) - np.asarray(photo, int)).mean() < 3
    assert stored_size(tmp_path / "a.HEIC") == (48, 64)
    (tmp_path / "a.HEIC").write_bytes((tmp_path / "a.HEIC").read_bytes()[:300])
    with pytest.raises(ImageError, match=r"a\.HEIC"):
        decode(tmp_path / "a.HEIC")


def test_photos_of_telephones_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr("implanting.images.decoding._reads_heif", lambda: False)
    (tmp_path / "a.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    with pytest.raises(ImageError, match=r"a\.HEIC .*\(HEIC\): pip install 'implanting\[heic\]', or save it as JPEG"):
        decode(tmp_path / "a.HEIC")


@pytest.mark.parametrize("side", [32, 84])
def test_draft_does_not_hurt(side):
    """The whole image decoded and resized is the slow twin; JPEG itself loses more than draft mode does."""
    photo = Image.fromarray(load_sample_image("china.jpg"))
    stored = as_bytes(photo, "JPEG", quality=90)
    assert min(decode(stored, side).size) < min(photo.size)
    drafted, whole = load(stored, side).astype(float), resize(decode(stored), side).astype(float)
    again = load(as_bytes(Image.fromarray(whole.astype(np.uint8)), "JPEG", quality=90), side).astype(float)
    assert abs(drafted - whole).mean() < abs(again - whole).mean()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "BMP", "WEBP", "GIF", "AVIF"])
def test_damaged_files_of_every_kind_raise_one_kind_of_error(kind):
    generator = np.random.default_rng(0)
    content = as_bytes(Image.fromarray(generator.integers(0, 256, (16, 16, 3), dtype=np.uint8)), kind)
    refused = 0
    for _ in range(100):
        damaged = bytearray(content)
        for place in generator.integers(0, min(len(content), 200), 4):
            damaged[place] = generator.integers(256)
        try:
            decode(bytes(damaged), 4)
        except ImageError:
            refused += 1
    assert refused > 0


def test_pixel_limit(monkeypatch):
    monkeypatch.setattr(module, "PIXEL_LIMIT", 7)
    with pytest.raises(ImageError, match="4 x 2 pixels; at most 7 "):
        decode(as_bytes(two_colours()))


def enormous_png(side: int) -> bytes:
    """A few bytes that say they are an image of `side` pixels square."""
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 999)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


@pytest.mark.parametrize(("side", "pixels"), [(10_000, "100,000,000"), (100_000, "10,000,000,000")])
def test_bombs_are_refused_by_their_header(side, pixels):
    """The first only because warnings are errors here: Pillow warns of it and refuses the second."""
    with pytest.raises(ImageError, match=f"has {pixels} pixels; .*scale it down"):
        decode(enormous_png(side))


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")  # Pillow warns below our limit
def test_an_image_below_the_limit_is_read():
    with pytest.raises(ImageError, match="truncated"):  # so its pixels were asked for
        decode(enormous_png(10_000))
