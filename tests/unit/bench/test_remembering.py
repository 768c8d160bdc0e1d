"""A base that remembers gives what the base gives, and runs the network once per image."""

import torch

from implanting.base import BaseNetwork
from implanting.bench.remembering import RememberingBase
from implanting.classifier import ImageClassifier
from implanting.implants import encode
from toys import coloured, noise


def test_it_gives_what_the_base_gives(base: BaseNetwork):
    images = noise(5, 32, 32, 3)
    remembering = RememberingBase(base)
    for _ in range(2):
        torch.testing.assert_close(remembering.embed(images), base.embed(images))
        torch.testing.assert_close(remembering.read(images), base.read(images))
        for found, expected in zip(encode(remembering, images)[0], encode(base, images)[0], strict=True):
            torch.testing.assert_close(found, expected)
    assert remembering.fingerprint == base.fingerprint


def test_each_image_is_computed_once_and_counted_whenever_it_is_asked_for(base: BaseNetwork):
    images, remembering = noise(4, 32, 32, 3), RememberingBase(base)
    remembering.embed(images[:3])
    remembering.embed(images[1:])
    remembering.embed(images.flip(0))
    assert (remembering.asked, remembering.computed) == (10, 4)
    remembering.activations(images)
    assert remembering.computed == 8  # another answer of the network
    assert remembering.seconds > 0


def test_images_that_differ_in_one_pixel_are_two(base: BaseNetwork):
    first = noise(1, 32, 32, 3)
    second = first.clone()
    second[0, 31, 31, 2] ^= 255
    remembering = RememberingBase(base)
    remembering.embed(first)
    torch.testing.assert_close(remembering.embed(second), base.embed(second))
    assert not torch.equal(remembering.embed(second), remembering.embed(first))


def test_beyond_its_budget_it_computes_again(base: BaseNetwork):
    images = noise(2, 32, 32, 3)
    remembering = RememberingBase(base, budget=base.embed(images[:1]).nbytes)
    remembering.embed(images)
    remembering.embed(images)
    assert remembering.computed == 3


def test_a_classifier_on_it_is_the_same_classifier(base: BaseNetwork):
    known = coloured(classes=3, per_class=6, size=32)
    images, labels, asked = known.images.numpy(), known.labels.numpy(), noise(4, 32, 32, 3).numpy()
    plain, quick = (ImageClassifier(one, device="cpu").fit(images, labels) for one in (base, RememberingBase(base)))
    torch.testing.assert_close(
        torch.from_numpy(quick.predict_proba(asked)), torch.from_numpy(plain.predict_proba(asked)), rtol=1e-3, atol=1e-4
    )
