"""Mixup: the images of a batch are mixed in pairs, and so are their targets.

Zhang, Cisse, Dauphin & Lopez-Paz, "mixup: Beyond Empirical Risk Minimization" (ICLR 2018):

    x = share x_i + (1 - share) x_j,    y = share y_i + (1 - share) y_j,    share ~ Beta(strength, strength).

Choices: one share per batch, of which the larger part goes to image i, so that an image still has a label that may be
called right; the pairs are a permutation of the batch, so that every image is seen twice. Between pairs of a batch it
makes no difference which part is called the larger one.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor


class Mixture(NamedTuple):
    """How a batch is mixed."""

    share: float
    """The part of each image itself, at least a half."""
    partner: Int[Tensor, " image"]
    """The image of the batch that makes up the rest."""

    def of(self, own: Float[Tensor, "image ..."], partners: Float[Tensor, "image ..."]) -> Float[Tensor, "image ..."]:
        """Mix the values of images with those of their partners."""
        return torch.lerp(partners, own, self.share)


def draw_mixture(images: int, strength: float, generator: Generator) -> Mixture:
    """Draw the share and the pairs of one batch."""
    # torch draws from a Beta distribution with its global generator only
    share = np.random.default_rng(generator.initial_seed()).beta(strength, strength)
    return Mixture(max(share, 1 - share), torch.randperm(images, generator=generator))
