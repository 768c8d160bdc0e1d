"""A second task for the features of stage 1: by how many quarter turns was an image turned?

Gidaris, Singh & Komodakis, "Unsupervised representation learning by predicting image rotations" (ICLR 2018); beside a
classifier for few-shot learning, Gidaris et al., "Boosting few-shot visual learning with self-supervision" (ICCV 2019).
There, each image is seen in all four turns. Here, each is seen once, so that a step costs no more: a share of the
images is turned, keeps its class, and a head on the pooled features names the turn. The head is not part of the base.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Generator, Tensor, nn

TURNS = 4
"""Upright, and one, two and three quarter turns."""

SCALE = 10.0
"""Length of the features that the head reads."""

WEIGHT = 0.5
"""Weight of its loss beside that of the classes."""


class Turned(NamedTuple):
    """Images, and the number of quarter turns of each."""

    images: UInt8[Tensor, "image side side 3"]
    turns: Int[Tensor, " image"]


def turn(images: UInt8[Tensor, "image side side 3"], share: float, generator: Generator) -> Turned:
    """Turn each image with probability `share` by one, two or three quarters, all equally likely."""
    chosen = torch.rand(len(images), generator=generator) < share
    turns = torch.where(chosen, torch.randint(1, TURNS, (len(images),), generator=generator), 0)
    turned = images.clone()
    for quarters in range(1, TURNS):
        turned[turns == quarters] = torch.rot90(images[turns == quarters], quarters, (1, 2))
    return Turned(turned, turns)


class RotationHead(nn.Module):
    """Scores of the four turns, linear in the direction of the mean feature of a map; all zero at first."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(TURNS, dim))
        self.bias = nn.Parameter(torch.zeros(TURNS))

    def forward(self, maps: Float[Tensor, "image dim height width"]) -> Float[Tensor, "image turn"]:
        return F.linear(SCALE * F.normalize(maps.mean((2, 3)), dim=1), self.weight, self.bias)


def rotation_loss(
    scores: Float[Tensor, "image turn"], turns: Int[Tensor, " image"] | Float[Tensor, "image turn"]
) -> Float[Tensor, ""]:
    """What is added to the loss of the classes; the turn of a mixed image is a probability per turn."""
    return WEIGHT * F.cross_entropy(scores, turns)
