import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from implanting.config import AugmentConfig
from implanting.pretraining.augment import augment, color_jitter, random_crop, random_flip, shrink
from toys import noise, seeded


def windows(image: Tensor, padding: int, mode: str) -> dict[tuple[int, int], Tensor]:
    """Every window of the image's size in the padded image, by its place."""
    height, width, _ = image.shape
    planes = image.permute(2, 0, 1)[None].float()
    padded = F.pad(planes, (padding,) * 4, **({"mode": "reflect"} if mode == "reflect" else {"value": 0.0}))
    padded = padded[0].permute(1, 2, 0).to(torch.uint8)
    places = [(top, left) for top in range(2 * padding + 1) for left in range(2 * padding + 1)]
    return {(top, left): padded[top : top + height, left : left + width] for top, left in places}


@pytest.mark.parametrize("mode", ["reflect", "zero"])
def test_each_crop_is_one_window_and_all_windows_occur(mode):
    images = noise(300, 5, 7, 3)
    places = []
    for image, crop in zip(images, random_crop(images, 2, mode, seeded()), strict=True):
        found = [place for place, window in windows(image, 2, mode).items() if torch.equal(crop, window)]
        assert len(found) == 1
        places += found
    assert len(set(places)) == 25


def test_reflection_may_be_as_wide_as_the_image_allows():
    images = noise(50, 4, 4, 3)
    for image, crop in zip(images, random_crop(images, 3, "reflect", seeded()), strict=True):
        assert any(torch.equal(crop, window) for window in windows(image, 3, "reflect").values())


def test_flip_mirrors_half_of_the_images_left_to_right():
    images = noise(400, 3, 4, 3)
    mirrored = 0
    for image, flipped in zip(images, random_flip(images, seeded()), strict=True):
        is_mirror = torch.equal(flipped, image[:, [3, 2, 1, 0]])
        assert is_mirror != torch.equal(flipped, image)
        mirrored += is_mirror
    assert 150 < mirrored < 250


def naive_jitter(image: Tensor, brightness: float, contrast: float, saturation: float) -> Tensor:
    """One change after another."""
    pixels = image.float() * brightness
    mean = grey(pixels).mean()
    pixels = mean + contrast * (pixels - mean)
    own = grey(pixels)[..., None]
    return (own + saturation * (pixels - own)).clamp(0, 255)


def grey(pixels: Tensor) -> Tensor:
    return 0.299 * pixels[..., 0] + 0.587 * pixels[..., 1] + 0.114 * pixels[..., 2]


def test_jitter_is_brightness_then_contrast_then_saturation():
    images = noise(20, 4, 4, 3)
    factors = 0.6 + 0.8 * torch.rand(3, 20, generator=seeded(5))
    for number, changed in enumerate(color_jitter(images, 0.4, seeded(5))):
        expected = naive_jitter(images[number], *factors[:, number].tolist())
        assert (changed.float() - expected).abs().max() <= 0.51


def test_jitter_of_a_grey_image_stays_within_its_bounds_and_fills_them():
    changed = color_jitter(torch.full((500, 2, 2, 3), 100, dtype=torch.uint8), 0.4, seeded()).float()
    assert 60 <= changed.min() <= 62
    assert 138 <= changed.max() <= 140
    assert (changed == changed[:, :1, :1, :1]).all()


def test_jitter_of_strength_zero_changes_nothing():
    images = noise(10, 4, 4, 3)
    assert torch.equal(color_jitter(images, 0.0, seeded()), images)


ALL = AugmentConfig(crop_padding=2, crop_mode="zero", flip=True, jitter=0.4)


def test_the_same_seed_gives_the_same_images_and_the_input_is_left_alone():
    images = noise(10, 6, 6, 3)
    before = images.clone()
    first, again, other = (augment(images, ALL, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(images, before)


def test_everything_can_be_switched_off():
    images = noise(10, 6, 6, 3)
    assert torch.equal(augment(images, AugmentConfig(crop_padding=0, flip=False, jitter=0.0), seeded()), images)


def test_shrunken_images_keep_their_average_and_the_order_that_convolutions_like() -> None:
    images = torch.rand(4, 3, 32, 32, generator=seeded())
    smaller = shrink(images, 24)
    assert smaller.shape == (4, 3, 24, 24)
    assert smaller.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(smaller.mean((2, 3)), images.mean((2, 3)), atol=0.01, rtol=0)
