import torch

from implanting.bench.noise import fresh_network, random_images, random_pixels
from implanting.config import NetworkConfig


def test_networks_are_frozen_and_always_the_same():
    one, other = (fresh_network(NetworkConfig(width=2), 32) for _ in range(2))
    assert not one.training
    assert not any(parameter.requires_grad for parameter in one.parameters())
    assert all(torch.equal(first, second) for first, second in zip(one.parameters(), other.parameters(), strict=True))


def test_noise_depends_on_its_seed_alone():
    assert torch.equal(random_pixels(3, 4), random_pixels(3, 4))
    assert not torch.equal(random_pixels(3, 4), random_pixels(3, 4, seed=1))


def test_every_class_has_as_many_images():
    images = random_images(12, classes=3, size=2)
    assert images.images.shape == (12, 2, 2, 3)
    assert [len(indices) for indices in images.indices_by_class()] == [4, 4, 4]
