"""Folds: the images of each class divided into parts, each of which is held out in turn."""

import torch
from jaxtyping import Int
from torch import Tensor

NEVER = -1
"""The fold number of an image that is never held out, because it is the only one of its class."""


def assign_folds(labels: Int[Tensor, " image"], folds: int) -> Int[Tensor, " image"]:
    """Assign each image the fold in which it is held out, distributing the images of each class in turn.

    The image of a class with one image is never held out. No class ever loses all its images, because there are at
    least two folds.
    """
    sizes = labels.bincount()
    folds = max(2, min(folds, int(sizes.max())))
    ranks = rank_in_class(labels)
    return torch.where(sizes[labels] > 1, ranks % folds, NEVER)


def rank_in_class(labels: Int[Tensor, " image"]) -> Int[Tensor, " image"]:
    """Count, for each image, the images of its class that precede it."""
    order, sizes = labels.argsort(stable=True), labels.bincount()
    first = (sizes.cumsum(0) - sizes)[labels[order]]
    return torch.empty_like(labels).index_copy(0, order, torch.arange(len(labels)) - first)
