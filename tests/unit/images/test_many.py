"""Many images in one tensor, in memory or not, whole or not at all."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from implanting.errors import DataError, ImageError
from implanting.images import RESIZING, decode_all, load, resize_all
from implanting.images.many import AS_STORED
from implanting.runtime import allocate


def write(folder, sizes):
    generator = np.random.default_rng(0)
    paths = [folder / f"{index}.png" for index in range(len(sizes))]
    for path, (width, height) in zip(paths, sizes, strict=True):
        Image.fromarray(generator.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(path)
    return paths


def test_one_size_stays_as_stored(tmp_path):
    paths = write(tmp_path, [(6, 4)] * 5)
    images, resizing = decode_all(paths)
    assert (images.shape, images.dtype, resizing) == ((5, 4, 6, 3), torch.uint8, AS_STORED)
    for image, path in zip(images, paths, strict=True):
        np.testing.assert_array_equal(image, np.asarray(Image.open(path)))


def test_differing_sizes_become_84(tmp_path):
    paths = write(tmp_path, [(100, 90), (40, 50)])
    images, resizing = decode_all(paths)
    assert (images.shape, resizing) == ((2, 84, 84, 3), RESIZING)
    np.testing.assert_array_equal(images[1], load(paths[1], 84))


def test_size_asked_for(tmp_path):
    images, resizing = decode_all(write(tmp_path, [(6, 4)] * 2), 5)
    assert (images.shape, resizing) == ((2, 5, 5, 3), RESIZING)


def test_a_lying_photo_counts_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (6, 4)).save(tmp_path / "lying.jpg", exif=exif)
    Image.new("RGB", (4, 6)).save(tmp_path / "standing.jpg")
    assert decode_all([tmp_path / "lying.jpg", tmp_path / "standing.jpg"])[0].shape == (2, 6, 4, 3)


def test_beyond_the_budget_images_are_mapped_and_equal(tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    paths = write(tmp_path, [(6, 4)] * 5)
    mapped, _ = decode_all(paths, budget=5 * 72 - 1)
    assert list(temporary.iterdir()) == []
    if (maps := Path("/proc/self/maps")).exists():
        assert str(temporary) in maps.read_text()
    assert torch.equal(mapped, decode_all(paths)[0])


def test_budget_decides_where_the_array_lives():
    assert allocate((4, 5), budget=20).flags.owndata
    mapped = allocate((4, 5), budget=19)
    assert not mapped.flags.owndata
    assert mapped.shape == (4, 5)


def test_full_disk_is_told_before_decoding(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(DataError, match=r"No space left.*TMPDIR"):
        allocate((4, 5), budget=0)


def test_a_bad_image_is_named(tmp_path):
    paths = write(tmp_path, [(6, 4)] * 5)
    paths[3].write_bytes(paths[3].read_bytes()[:60])
    with pytest.raises(ImageError, match=r"3\.png is damaged"):
        decode_all(paths)


def test_progress_sees_every_image(tmp_path):
    seen = []

    def progress(items, description, total):
        for item in items:
            seen.append((description, total))
            yield item

    decode_all(write(tmp_path, [(6, 4)] * 3), 4, progress)
    assert seen == [("decoding", 3)] * 3


def test_arrays_are_resized_by_the_same_rule():
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 6, 3), dtype=np.uint8)
    resized, resizing = resize_all(images, 4)
    assert resizing == RESIZING
    np.testing.assert_array_equal(resized[2], load(images[2], 4))


@pytest.mark.parametrize("size", [None, 8])
def test_arrays_of_the_right_size_are_shared(size):
    images = np.zeros((3, 8, 8, 3), np.uint8)
    tensor, resizing = resize_all(images, size)
    images[0, 0, 0, 0] = 9
    assert (resizing, tensor[0, 0, 0, 0].item()) == (AS_STORED, 9)
