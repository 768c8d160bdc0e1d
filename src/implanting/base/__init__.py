"""A base network: a frozen network with its preprocessing, provenance and usage defaults, as one value and one file.

Every other room gets image features from here and does not know which network computes them.
"""

from implanting.base.base_network import MEAN_DIRECTION, BaseNetwork
from implanting.base.description import BaseDescription, build
from implanting.base.embedding import embed, embed_batch, images_at_once, through
from implanting.base.files import (
    base_document,
    base_from_document,
    load_base,
    load_weights,
    read_base,
    save_base,
)
from implanting.base.imagenet import IMAGENET
from implanting.base.training_facts import TrainingFacts, Validation

__all__ = [
    "IMAGENET",
    "MEAN_DIRECTION",
    "BaseDescription",
    "BaseNetwork",
    "TrainingFacts",
    "Validation",
    "base_document",
    "base_from_document",
    "build",
    "embed",
    "embed_batch",
    "images_at_once",
    "load_base",
    "load_weights",
    "read_base",
    "save_base",
    "through",
]
