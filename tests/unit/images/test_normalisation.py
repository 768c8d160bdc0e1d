"""The fast normalisation equals the formula; the statistics equal the ones of the whole tensor."""

import pytest
import torch

from implanting.images import Normalisation
from implanting.images import preprocessing as normalisation


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randint(0, 256, (5, 4, 6, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_equals_the_formula(images):
    mean, std = (0.4, 0.5, 0.6), (0.1, 0.2, 0.3)
    expected = (images.double() / 255 - torch.tensor(mean).double()) / torch.tensor(std).double()
    normalised = Normalisation(mean, std)(images)
    assert normalised.dtype == torch.float32
    torch.testing.assert_close(normalised.double(), expected.permute(0, 3, 1, 2), atol=1e-5, rtol=0)


def test_is_channels_last_and_leaves_the_images(images):
    before = images.clone()
    normalised = Normalisation((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))(images)
    assert normalised.shape == (5, 3, 4, 6)
    assert normalised.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(images, before)


def test_takes_views(images):
    flipped = images.flip(2)[:, :, 1:]
    normalise = Normalisation((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    torch.testing.assert_close(normalise(flipped), normalise(images).flip(3)[..., 1:])


def test_statistics(images, monkeypatch):
    monkeypatch.setattr(normalisation, "CHUNK", 7)
    pixels = images.double().reshape(-1, 3) / 255
    found = Normalisation.of(images)
    assert found.mean == pytest.approx(pixels.mean(0).tolist(), abs=1e-12)
    assert found.std == pytest.approx(pixels.std(0, correction=0).tolist(), abs=1e-12)


def test_constant_images_stay_finite():
    images = torch.full((2, 3, 3, 3), 10, dtype=torch.uint8)
    normalised = Normalisation.of(images)(images)
    torch.testing.assert_close(normalised, torch.zeros_like(normalised), atol=1e-5, rtol=0)
