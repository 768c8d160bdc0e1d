"""Base networks from files and by name, and as a part of other files."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from implanting.base.base_network import BaseNetwork
from implanting.base.bundled import (
    FC100,
    IMAGENET,
    IMAGENET_POOLING,
    IMAGENET_PREPROCESSING,
    IMAGENET_TAU,
    fc100_file,
    imagenet_calibrations,
    imagenet_weights,
)
from implanting.base.description import KIND, REMEDY, build, load_weights, read_description
from implanting.base.usage import Advice
from implanting.config import VIEWS, Pooling
from implanting.errors import CheckpointError, ConfigError
from implanting.images import Normalisation, Preprocessing
from implanting.networks import EfficientNetLite0, build_lite0, renamed
from implanting.runtime import part, read_checkpoint


def imagenet_base() -> BaseNetwork:
    """EfficientNet-Lite0 with its ImageNet weights, its tau chosen on images of flowers (docs/lab-log.md)."""
    network = build_lite0(renamed(imagenet_weights()))
    return lite0_base(network, IMAGENET_PREPROCESSING, IMAGENET_POOLING, IMAGENET_TAU)


def lite0_base(network: EfficientNetLite0, preprocessing: Preprocessing, pooling: Pooling, tau: float) -> BaseNetwork:
    """EfficientNet-Lite0 with what flowers showed of its use."""
    advice = Advice(few_shot_views=VIEWS, calibrations=imagenet_calibrations()).for_scaled_tau(tau / IMAGENET_TAU)
    return BaseNetwork(network, preprocessing, name=IMAGENET, pooling=pooling, tau=tau, advice=advice)


def base_document(base: BaseNetwork) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """All that another file needs to hold in order to embed a base network: a JSON document and tensors."""
    if base.description is not None:
        return base.description.document(), base.tensors
    if not isinstance(base.network, EfficientNetLite0):
        raise ConfigError(
            f"{base.name} is a network of your own, which a file cannot hold: save slim, and give it again on loading"
        )
    facts = {"tau": base.tau, "pooling": base.pooling, "implanted_blocks": 0}  # as version 0.1.0 reads it
    return {"origin": IMAGENET, **facts, **dataclasses.asdict(base.preprocessing)}, base.tensors


def base_from_document(
    document: Mapping[str, Any], tensors: Mapping[str, Tensor], path: str | Path = "the base network"
) -> BaseNetwork:
    """The inverse of `base_document`; further entries and tensors are left alone. `path` names it in errors."""
    if (origin := document.get("origin")) is not None:
        if origin != IMAGENET:
            raise CheckpointError(
                f"{path} holds a base of the kind '{origin}', unknown to this version: update implanting"
            )
        return lite0_from_document(document, tensors, path)
    description = read_description(document, path)
    network, classifier = build(description.config, len(description.class_names), description.image_size)
    load_weights(network, classifier, tensors, path)
    return BaseNetwork.from_training(network, classifier, description)


def lite0_from_document(document: Mapping[str, Any], tensors: Mapping[str, Tensor], path: str | Path) -> BaseNetwork:
    """EfficientNet-Lite0 as a file holds it."""
    if document.get("implanted_blocks"):
        raise CheckpointError(
            f"{path} has implants beside {document['implanted_blocks']} blocks of {IMAGENET}; this version implants "
            "the head only: fit the classifier again"
        )
    try:
        network = build_lite0(part("network", tensors))
        height, width = document["image_size"]
        mean, std = (tuple(document["normalisation"][name]) for name in ("mean", "std"))
        preprocessing = Preprocessing((height, width), Normalisation(mean, std), document["resizing"])
        return lite0_base(network, preprocessing, document["pooling"], float(document["tau"]))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:100]
        raise CheckpointError(f"{path} is damaged: its base network cannot be read ({reason}); copy it anew") from error


def load_base(path: str | Path, device: str = "cpu") -> BaseNetwork:
    """The base network of a file, or one that is there by name: "efficientnet-lite0" (ImageNet) or "fc100"."""
    if str(path) == IMAGENET:
        return imagenet_base().to(device)
    file = fc100_file() if str(path) == FC100 else Path(path)
    return base_from_document(*read_checkpoint(file, KIND, REMEDY), file).to(device)
