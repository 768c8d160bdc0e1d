"""Batches and threads of embedding."""

from threading import Barrier

import pytest
import torch

from implanting.base import embedding
from implanting.networks import EfficientNetLite, ModuleNetwork
from implanting.networks.resnet12 import c128f, resnet12
from rounding import assert_near
from toys import noise, toy_base


def test_batches_embed_as_single_images_do(monkeypatch):
    monkeypatch.setattr(embedding, "BATCH", 4)
    base, images = toy_base(), noise(11, 32, 48, 3)
    together = base.embed(images)
    assert together.shape == (11, 6, base.network.dim)
    for number in range(11):
        assert_near(together[number : number + 1], base.embed(images[number : number + 1]))


def test_threads_share_the_batches_and_change_nothing(monkeypatch, two_threads):
    base, images = toy_base(), noise(9, 16, 16, 3)
    monkeypatch.setattr(embedding, "BATCH", 2)
    torch.set_num_threads(1)
    expected = base.embed(images)
    torch.set_num_threads(2)
    assert torch.equal(base.embed(images), expected)
    assert torch.get_num_threads() == 2


def test_a_few_images_are_shared_among_threads_too(two_threads):
    both = Barrier(2, timeout=10)

    def work(rows):
        both.wait()  # for the other thread, and in vain where one thread does all
        return rows.stop - rows.start

    assert embedding.through(resnet12(8), noise(25, 8, 8, 3), work) == [13, 12]


def test_no_images_are_one_empty_batch():
    assert toy_base().embed(noise(0, 16, 16, 3)).shape == (0, 1, toy_base().network.dim)


def test_large_images_go_through_in_smaller_batches():
    def lengths(network, *shape):
        images = torch.zeros(*shape, 3, dtype=torch.uint8)
        return embedding.through(network, images, lambda rows: rows.stop - rows.start)

    assert lengths(resnet12(64), 76, 8, 8) == [32, 32, 12]
    assert lengths(resnet12(64), 15, 84, 84) == [11, 4]
    assert lengths(resnet12(64), 2, 2000, 1000) == [1, 1]
    assert lengths(EfficientNetLite(), 6, 224, 224) == [4, 2]


@torch.inference_mode()
@pytest.mark.parametrize("network", [resnet12(8), c128f(8), EfficientNetLite()])
def test_the_largest_map_is_as_large_as_networks_say(network):
    largest = ModuleNetwork(network, (64, 96)).numbers_per_pixel
    assert network.numbers_per_pixel == largest
