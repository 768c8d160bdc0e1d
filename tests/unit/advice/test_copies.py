"""Copies of one image are found however it was saved again, and other images are not taken for copies."""

import io

import numpy as np
import pytest
from PIL import Image
from skimage import data

from implanting.advice.copies import find_copies, shrunken, thumbnails_of

PHOTOS = [Image.fromarray(photo) for photo in (data.cat(), data.coffee(), data.astronaut(), data.rocket())]


def as_jpeg(image: Image.Image, quality: int) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def half(image: Image.Image) -> Image.Image:
    return image.resize((image.width // 2, image.height // 2))


@pytest.mark.parametrize(
    "again",
    [
        lambda photo: photo,
        lambda photo: as_jpeg(photo, 85),
        lambda photo: as_jpeg(photo, 30),
        lambda photo: as_jpeg(half(photo), 60),
        lambda photo: photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    ],
    ids=["same", "quality 85", "quality 30", "half the size", "mirrored"],
)
def test_a_copy_is_found_within_a_class_and_across(again):
    thumbnails = thumbnails_of([*PHOTOS, again(PHOTOS[1])])
    (within,) = find_copies(thumbnails, np.array([0, 1, 2, 3, 1]))
    assert (within.images, within.across) == ((1, 4), False)
    (across,) = find_copies(thumbnails, np.array([0, 1, 2, 3, 2]))
    assert (across.images, across.across) == ((1, 4), True)
    assert across.similarity > 0.97


def test_groups_across_classes_come_first_and_hold_all_their_copies():
    sources = [PHOTOS[0], PHOTOS[0], as_jpeg(PHOTOS[0], 60), PHOTOS[2], as_jpeg(PHOTOS[2], 20)]
    first, second = find_copies(thumbnails_of(sources), np.array([0, 0, 0, 1, 0]))
    assert (first.images, first.across) == ((3, 4), True)
    assert (second.images, second.across) == ((0, 1, 2), False)


def test_images_of_one_colour_and_noise_are_no_copies():
    generator = np.random.default_rng(0)
    noisy = [generator.integers(0, 256, (40, 40, 3), dtype=np.uint8) for _ in range(30)]
    plain = [np.full((40, 40, 3), shade, np.uint8) for shade in (0, 0, 200)]
    assert find_copies(thumbnails_of([*noisy, *plain]), np.zeros(33, int)) == ()
    assert find_copies(thumbnails_of([]), np.zeros(0, int)) == ()


def test_decoded_images_give_nearly_the_same_thumbnails():
    import torch

    from implanting.images import load

    squares = torch.stack([torch.from_numpy(load(photo, 224).copy()) for photo in PHOTOS])
    both = np.concatenate([shrunken(squares), thumbnails_of(PHOTOS)])
    assert [group.images for group in find_copies(both, np.zeros(8, int))] != []
    assert {group.images for group in find_copies(both, np.zeros(8, int))} == {(n, n + 4) for n in range(4)}
