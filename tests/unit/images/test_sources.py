"""Lists and arrays of images, as people hand them over."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from implanting.errors import ImageError
from implanting.images import decode, list_sources


@pytest.mark.parametrize("shape", [(2, 8, 9, 3), (2, 8, 9), (2, 8, 9, 1), (2, 8, 9, 4)])
@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_arrays_of_images(shape, convert):
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    sources = list_sources(convert(array))
    assert len(sources) == 2
    np.testing.assert_array_equal(sources[1], array[1])
    assert decode(sources[1]).size == (9, 8)


def test_lists_may_be_mixed():
    pixels = torch.zeros(4, 4, 3, dtype=torch.uint8)
    given = ["a.jpg", Path("b.jpg"), b"bytes", Image.new("L", (2, 2)), np.zeros((4, 4), np.uint8), pixels]
    sources = list_sources(given)
    assert sources[:4] == given[:4]
    assert isinstance(sources[5], np.ndarray)
    assert list_sources(iter(given[:2])) == given[:2]


@pytest.mark.parametrize("dtype", [str, object])
def test_arrays_of_paths(dtype):
    assert list_sources(np.array(["a.jpg", "b.jpg"], dtype)) == ["a.jpg", "b.jpg"]


@pytest.mark.parametrize("image", ["a.jpg", Path("a.jpg"), b"abc", Image.new("L", (2, 2))])
def test_one_image_alone_is_refused(image):
    with pytest.raises(ImageError, match=r"is a single image .* put it in a list"):
        list_sources(image)


@pytest.mark.parametrize(
    ("array", "mend"),
    [
        (np.zeros((8, 9, 3), np.uint8), "put one image alone in a list"),
        (np.zeros((8, 9), np.uint8), "put one image alone in a list"),
        (np.zeros((2, 8, 9, 3), np.float32), "values of 0 to 255"),
        (np.zeros((2, 3, 8, 9), np.uint8), "convert it"),
        (np.zeros((2, 100), np.float64), "convert it"),
    ],
)
def test_arrays_that_are_no_images(array, mend):
    with pytest.raises(ImageError, match=f"needed is uint8 .*{mend}"):
        list_sources(array)


@pytest.mark.parametrize("given", [None, 5, [5], ["a.jpg", None]])
def test_what_cannot_be_images(given):
    with pytest.raises(ImageError, match="needed is a"):
        list_sources(given)
