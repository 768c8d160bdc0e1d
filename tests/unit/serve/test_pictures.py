import io

import numpy as np
import pytest
from PIL import ExifTags, Image

from implanting.errors import ImageError
from implanting.images import load
from implanting.serve.pictures import LONGEST, THUMBNAIL, accept
from service import photo


def test_what_is_kept_is_upright_small_and_without_metadata() -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    exif[ExifTags.Base.Make] = "A camera with a serial number"
    file = io.BytesIO()
    Image.open(io.BytesIO(photo(size=(1200, 600)))).save(file, "JPEG", exif=exif, comment=b"where I live")
    kept = accept(file.getvalue(), "a.jpg", 32)
    picture = Image.open(io.BytesIO(kept.content))
    assert (kept.width, kept.height) == (600, 1200)
    assert picture.size == (LONGEST // 2, LONGEST)
    assert not picture.getexif()
    assert "comment" not in picture.info
    for secret in (b"serial number", b"where I live"):
        assert secret in file.getvalue()
        assert secret not in kept.content + kept.thumbnail
    assert Image.open(io.BytesIO(kept.thumbnail)).size == (THUMBNAIL, THUMBNAIL)


def test_the_network_sees_what_the_command_line_would_show_it() -> None:
    content = photo(size=(900, 700))
    np.testing.assert_array_equal(accept(content, "a.jpg", 32).pixels, load(content, 32))


def test_a_small_drawing_is_kept_without_loss() -> None:
    content = photo(size=(64, 48), kind="PNG")
    kept = accept(content, "a.png", 32)
    assert kept.suffix == ".png"
    np.testing.assert_array_equal(
        np.asarray(Image.open(io.BytesIO(kept.content))), np.asarray(Image.open(io.BytesIO(content)))
    )


def huge() -> bytes:
    """A PNG of 20,000 x 20,000 white pixels, in a few kilobytes."""
    file = io.BytesIO()
    Image.new("1", (20_000, 20_000), 1).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it is empty"),
        (b"this is text", "is not an image"),
        (photo(kind="PNG")[:500], "is damaged or truncated"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', "is not an image"),
        (huge(), "pixels; at most"),
    ],
    ids=["empty", "text", "truncated", "svg", "huge"],
)
def test_what_is_no_photo_is_refused_by_its_name(content: bytes, problem: str) -> None:
    with pytest.raises(ImageError, match=f"^the file 'mine.jpg' .*{problem}"):
        accept(content, "mine.jpg", 32)
