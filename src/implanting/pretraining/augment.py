"""Random crops, flips and colour jitter of a whole batch of uint8 images at once, each from an explicit generator.

Every function draws for each image of the batch in turn. With several processes each augments the whole batch and keeps
its share, so that an image is changed in the same way however many there are.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Generator, Tensor

from implanting.config import AugmentConfig
from implanting.images import reflect

Images = UInt8[Tensor, "image height width 3"]

GREY = torch.tensor([0.299, 0.587, 0.114])
"""The weights of red, green and blue in brightness (ITU-R 601)."""


def random_crop(images: Images, padding: int, mode: str, generator: Generator) -> Images:
    """Pad each side by reflection or with black, and cut a window of the original size at a random place."""
    count, height, width, _ = images.shape
    shift = torch.randint(-padding, padding + 1, (2, count, 1), generator=generator).to(images.device)
    rows = torch.arange(height, device=images.device) + shift[0]
    columns = torch.arange(width, device=images.device) + shift[1]
    cropped = images[
        torch.arange(count, device=images.device)[:, None, None],
        reflect(rows, height)[:, :, None],
        reflect(columns, width)[:, None, :],
    ]
    if mode == "zero":
        inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None, :]
        cropped = cropped * inside[..., None]
    return cropped


def random_flip(images: Images, generator: Generator) -> Images:
    """Mirror each image with probability one half."""
    mirrored = torch.rand(len(images), generator=generator).to(images.device) < 0.5
    return torch.where(mirrored[:, None, None, None], images.flip(2), images)


def color_jitter(images: Images, strength: float, generator: Generator) -> Images:
    """Scale brightness, contrast and saturation, each by a factor drawn from [1 - strength, 1 + strength]."""
    factors = 1 + strength * (2 * torch.rand(3, len(images), 1, 1, 1, generator=generator) - 1)
    brightness, contrast, saturation = factors.to(images.device)
    pixels = images.float() * brightness
    grey = (pixels * GREY.to(images.device)).sum(-1, keepdim=True)
    average = grey.mean((1, 2, 3), keepdim=True)
    pixels = average + contrast * (grey - average) + contrast * saturation * (pixels - grey)
    return pixels.round_().clamp_(0, 255).to(torch.uint8)


def augment(images: Images, config: AugmentConfig, generator: Generator) -> Images:
    """Make all the changes that a configuration asks for."""
    if config.crop_padding:
        images = random_crop(images, config.crop_padding, config.crop_mode, generator)
    if config.flip:
        images = random_flip(images, generator)
    if config.jitter:
        images = color_jitter(images, config.jitter, generator)
    return images


def shrink(images: Float[Tensor, "image 3 height width"], size: int) -> Float[Tensor, "image 3 {size} {size}"]:
    """Shrink normalised images by antialiased bilinear resizing; the result is in channels_last memory order."""
    smaller = F.interpolate(images, size=(size, size), mode="bilinear", antialias=True)
    return smaller.contiguous(memory_format=torch.channels_last)
