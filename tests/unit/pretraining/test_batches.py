import torch

from implanting.config import AugmentConfig
from implanting.pretraining import batch
from implanting.pretraining.batches import batch_indices
from toys import coloured

PLAIN = AugmentConfig(crop_padding=0, flip=False)


def indices(steps: int, batch_size: int, images: int, seed: int = 0) -> torch.Tensor:
    return torch.cat([batch_indices(step, batch_size, images, seed) for step in range(steps)])


def test_every_epoch_is_a_permutation_though_batches_cross_its_end():
    epochs = indices(steps=15, batch_size=4, images=10).view(6, 10)
    assert all(sorted(epoch.tolist()) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch.tolist()) for epoch in epochs}) == 6


def test_a_batch_that_crosses_takes_the_end_of_one_epoch_and_the_start_of_the_next():
    whole = indices(steps=2, batch_size=10, images=10)
    assert batch_indices(2, 4, 10, seed=0).tolist() == whole[8:12].tolist()


def test_a_batch_larger_than_the_set():
    large = batch_indices(0, 25, 10, seed=0)
    assert large.tolist() == indices(steps=3, batch_size=10, images=10)[:25].tolist()
    assert torch.bincount(large).tolist().count(3) == 5


def test_the_order_depends_on_the_seed():
    assert batch_indices(0, 10, 10, seed=0).tolist() != batch_indices(0, 10, 10, seed=1).tolist()


def test_images_and_labels_belong_together():
    images = coloured()
    pixels, labels, chosen = batch(images, PLAIN, 5, seed=3, step=7)
    assert torch.equal(chosen, batch_indices(7, 5, len(images), seed=3))
    assert torch.equal(pixels, images.images[chosen])
    assert torch.equal(labels, images.labels[chosen])


def test_a_batch_is_a_function_of_seed_and_step():
    images = coloured()
    first = batch(images, AugmentConfig(), 5, seed=3, step=7)
    batch(images, AugmentConfig(), 5, seed=3, step=8)
    again = batch(images, AugmentConfig(), 5, seed=3, step=7)
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])


def test_each_step_and_seed_is_augmented_in_its_own_way():
    one = coloured(classes=1, per_class=1)
    config = AugmentConfig(crop_padding=4)
    pictures = {batch(one, config, 1, seed, step)[0].numpy().tobytes() for seed in range(3) for step in range(4)}
    assert len(pictures) > 8
