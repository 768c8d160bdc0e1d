"""Inputs for measurements: images of noise and networks with fresh weights.

The contents of images and the values of weights make no difference to the speed.
"""

import torch
from jaxtyping import UInt8
from torch import Tensor

from implanting.base import build
from implanting.config import NetworkConfig, PretrainConfig
from implanting.datasets import ImageSet
from implanting.networks import Network


def fresh_network(architecture: NetworkConfig, size: int) -> Network:
    """A frozen network for square images, with fresh weights."""
    network, _ = build(PretrainConfig(architecture=architecture, iterations=1), 2, (size, size))
    return network.eval().requires_grad_(False)


def random_pixels(count: int, size: int, seed: int = 0) -> UInt8[Tensor, "{count} {size} {size} 3"]:
    """Square images of noise."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8, generator=generator)


def random_images(count: int, classes: int, size: int = 1) -> ImageSet:
    """Images of noise, equally many per class; by default of one pixel, for when only labels matter."""
    names = tuple(str(number) for number in range(classes))
    return ImageSet(random_pixels(count, size), torch.arange(count) % classes, names, "noise", "as stored")
