"""Folds: the images of each class dealt into parts, each of which is held out in turn."""

import torch
from jaxtyping import Int
from torch import Tensor

NEVER = -1
"""The fold of an image that is never held out: its class has no other."""


def deal(labels: Int[Tensor, " image"], folds: int) -> Int[Tensor, " image"]:
    """The fold in which each image is held out: the images of a class in turn, so that each fold has one of it or more.

    A class of one image is never held out. A class never loses all its images, as there are two folds or more.
    """
    sizes = labels.bincount()
    folds = max(2, min(folds, int(sizes.max())))
    ranks = rank_in_class(labels)
    return torch.where(sizes[labels] > 1, ranks % folds, NEVER)


def rank_in_class(labels: Int[Tensor, " image"]) -> Int[Tensor, " image"]:
    """How many images of its class come before each image."""
    order, sizes = labels.argsort(stable=True), labels.bincount()
    first = (sizes.cumsum(0) - sizes)[labels[order]]
    return torch.empty_like(labels).index_copy(0, order, torch.arange(len(labels)) - first)
