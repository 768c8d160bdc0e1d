"""Batches come in order, decoded ahead but not far, and a bad image is named and costs nothing else."""

import threading

import numpy as np
import pytest
import torch
from PIL import Image

from implanting.errors import ImageError
from implanting.images import decode_batches, load, many


@pytest.fixture
def paths(tmp_path):
    generator = np.random.default_rng(0)
    paths = [tmp_path / f"{number}.png" for number in range(11)]
    for path in paths:
        Image.fromarray(generator.integers(0, 256, (12, 10, 3), dtype=np.uint8)).save(path)
    return paths


@pytest.mark.parametrize("batch_size", [1, 4, 11, 100])
@pytest.mark.parametrize("workers", [1, 3])
def test_equals_loading_one_after_another(paths, batch_size, workers):
    batches = list(decode_batches(paths, 8, batch_size, workers=workers))
    assert all(len(batch.images) == batch_size for batch in batches[:-1])
    assert torch.cat([batch.indices for batch in batches]).tolist() == list(range(11))
    expected = np.stack([load(path, 8) for path in paths])
    np.testing.assert_array_equal(torch.cat([batch.images for batch in batches]), expected)


def test_sources_of_every_kind(paths):
    sources = [str(paths[0]), paths[0].read_bytes(), Image.open(paths[0]), np.asarray(Image.open(paths[0]))]
    (batch,) = decode_batches(sources, 8, 4)
    assert all(torch.equal(image, batch.images[0]) for image in batch.images)


def test_nothing_gives_nothing():
    assert list(decode_batches([], 8, 4)) == []


def test_bad_images_are_left_out_and_reported(paths):
    for number in (1, 4, 5, 6, 7):
        paths[number].write_bytes(b"no image")
    batches = list(decode_batches(paths, 8, 4, skip_bad=True))
    assert [batch.indices.tolist() for batch in batches] == [[0, 2, 3], [], [8, 9, 10]]
    assert [tuple(batch.images.shape) for batch in batches] == [(3, 8, 8, 3), (0, 8, 8, 3), (3, 8, 8, 3)]
    np.testing.assert_array_equal(batches[0].images[1], load(paths[2], 8))
    failures = [failure for batch in batches for failure in batch.failures]
    assert [(failure.index, failure.source) for failure in failures] == [(n, paths[n]) for n in (1, 4, 5, 6, 7)]
    assert all(str(failure.source) in failure.reason for failure in failures)


def test_a_bad_image_raises_after_the_batches_before_it(paths):
    paths[5].write_bytes(b"no image")
    batches = decode_batches(paths, 8, 4)
    assert next(batches).indices.tolist() == [0, 1, 2, 3]
    with pytest.raises(ImageError, match=r"5\.png is not an image"):
        next(batches)


def test_sources_are_taken_only_so_far_ahead(paths):
    taken = []

    class Noted(list):
        def __iter__(self):
            for source in super().__iter__():
                taken.append(source)
                yield source

    sources = Noted(paths[number % 11] for number in range(100))
    most = [len(taken) - batch.indices[-1].item() - 1 for batch in decode_batches(sources, 8, 5)]
    assert max(most) == 5 * many.LOOK_AHEAD


def test_decoding_goes_on_while_the_caller_works(paths, monkeypatch):
    """The caller never asks for the next batch before its images have been read: without threads it would wait."""
    read, second_batch_read = [], threading.Event()

    def note(source, size):
        read.append(source)
        if set(paths[4:8]) <= set(read):
            second_batch_read.set()
        return load(source, size)

    monkeypatch.setattr(many, "load", note)
    batches = decode_batches(paths, 8, 4)
    next(batches)
    assert second_batch_read.wait(60)
    assert next(batches).indices.tolist() == [4, 5, 6, 7]


def test_stopping_early_ends_the_threads(paths):
    before = set(threading.enumerate())  # other tests may have left theirs to the garbage collector
    batches = decode_batches(paths * 20, 8, 4, workers=2)
    next(batches)
    assert set(threading.enumerate()) > before
    batches.close()
    assert set(threading.enumerate()) <= before


def test_progress_counts_images(paths):
    told = []

    def progress(items, description, total):
        for number, item in enumerate(items):
            told.append((description, number + 1, total))
            yield item

    batches = list(decode_batches(paths, 8, 4, progress=progress, doing="looking"))
    assert [len(batch.images) for batch in batches] == [4, 4, 3]
    assert told == [("looking", number, 11) for number in range(1, 12)]
