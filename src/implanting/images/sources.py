"""Many images as people hand them over -> a list of sources, each of which `decode` takes."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from implanting.errors import ImageError
from implanting.images.conversion import CHANNELS
from implanting.images.decoding import ImageSource, name_of


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
