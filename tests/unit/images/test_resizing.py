"""One rule: the shorter side to the size, with antialiasing, and the centre kept."""

import numpy as np
import pytest
from PIL import Image

from implanting.images import load, resize


def stripes(width: int, height: int) -> Image.Image:
    """Thirds of red, green and blue along the longer side."""
    image = Image.new("RGB", (width, height), (0, 255, 0))
    third = max(width, height) // 3
    wide = width > height
    image.paste((255, 0, 0), (0, 0, third, height) if wide else (0, 0, width, third))
    image.paste((0, 0, 255), (2 * third, 0, width, height) if wide else (0, 2 * third, width, height))
    return image


@pytest.mark.parametrize("size", [(90, 30), (30, 90)])
@pytest.mark.parametrize("side", [10, 30, 60])
def test_equals_scaling_the_whole_then_cropping(size, side):
    image = stripes(*size)
    whole = image.resize((size[0] * side // 30, size[1] * side // 30), Image.Resampling.BILINEAR)
    left, top = (whole.width - side) // 2, (whole.height - side) // 2
    resized = resize(image, side)
    np.testing.assert_array_equal(resized, np.asarray(whole)[top : top + side, left : left + side])
    assert resized[side // 2, side // 2].tolist() == [0, 255, 0]


def test_right_size_is_untouched():
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    np.testing.assert_array_equal(resize(Image.fromarray(pixels), 8), pixels)


def test_shrinking_averages():
    board = np.indices((64, 64)).sum(0) % 2 * 255
    resized = resize(Image.fromarray(np.repeat(board[..., None], 3, 2).astype(np.uint8)), 8)
    assert abs(resized.astype(int) - 127).max() <= 2


def test_load_is_decode_then_resize(tmp_path):
    stripes(90, 30).save(tmp_path / "a.png")
    np.testing.assert_array_equal(load(tmp_path / "a.png", 10), resize(stripes(90, 30), 10))
