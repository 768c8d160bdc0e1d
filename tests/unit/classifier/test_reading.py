"""Batches of a user's images."""

import torch

from implanting.classifier import decoded, reading
from toys import noise


def test_all_images_come_in_batches_and_in_order(monkeypatch):
    monkeypatch.setattr(reading, "BATCH", 3)
    images, told = list(noise(7, 16, 16, 3).numpy()), []

    def progress(items, description, total):
        told.append((description, total))
        return items

    batches = list(decoded(images, 16, progress, "looking"))
    assert [len(batch.images) for batch in batches] == [3, 3, 1]
    assert torch.cat([batch.indices for batch in batches]).tolist() == list(range(7))
    assert torch.equal(torch.cat([batch.images for batch in batches]), noise(7, 16, 16, 3))
    assert told == [("looking", 3)]


def test_bad_images_are_left_out_where_they_may_be():
    (batch,) = decoded([noise(16, 16, 3).numpy(), b"no image", noise(16, 16, 3).numpy()], 16, skip_bad=True)
    assert batch.indices.tolist() == [0, 2]
    assert [failure.index for failure in batch.failures] == [1]
