"""Toy images: each class one grey level."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

WriteImages = Callable[..., None]


@pytest.fixture
def write_images() -> WriteImages:
    """Write one plain image for each path, of the grey level given."""

    def write(*paths: Path, level: int = 0, size: tuple[int, int] = (8, 8)) -> None:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", size, (level, level, level)).save(path)

    return write


@pytest.fixture
def grey_images() -> Callable[[list[int]], np.ndarray]:
    """Plain 4 x 4 images of the levels given."""

    def make(levels: list[int]) -> np.ndarray:
        return np.repeat(np.array(levels, np.uint8), 48).reshape(-1, 4, 4, 3)

    return make
