"""Where an image looks like each class of a task: its heat maps, by what was learned."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from implanting.classifier.learning import Learned
from implanting.errors import ConfigError
from implanting.heatmap import Explanation, MapKind, centre_square, similarity_maps, softmax_maps
from implanting.images import ImageSource, decode, load


def explain(
    learned: Learned, source: ImageSource, size: int, classes: Sequence[Any], kind: MapKind, finer: int
) -> Explanation:
    """Where an image looks like each class; the maps come from the image at `finer` times the size."""
    if learned.fitted.classify.query_pooling == "flatten":
        raise ConfigError("a base trained with flatten has no class scores of single locations: explain needs another")
    features = {
        side: learned.features(torch.from_numpy(load(source, side).copy())[None]) for side in {size, size * finer}
    }
    probabilities = learned.probabilities(learned.cosines(features[size]))[0]
    phi, image = features[size * finer][0], decode(source)
    shape = learned.base.map_size(size * finer, size * finer)
    if kind == "softmax":
        maps = softmax_maps(phi, learned.prototypes, learned.fitted.classify.tau, shape)
    else:
        maps = similarity_maps(phi, learned.prototypes, shape)
    box = centre_square(image.height, image.width)
    return Explanation(np.asarray(image), maps.numpy(), tuple(classes), probabilities.numpy(), kind, box)
