"""Load base networks by name or from files, and embed them in other files.

A named network comes with this package (those trained by stage 1) or in a package of its own (`imagenet.py`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from implanting.base.base_network import MEAN_DIRECTION, BaseNetwork, weights
from implanting.base.description import BaseDescription, build, count_numbers
from implanting.base.imagenet import (
    BUNDLED,
    IMAGENET_BASES,
    imagenet_base,
    imagenet_classes,
    imagenet_document,
    imagenet_from_document,
)
from implanting.dense_classification import CosineClassifier
from implanting.errors import CheckpointError, ConfigError, ImplantingError
from implanting.networks import EfficientNetLite, Network, SideBySide
from implanting.runtime import part, read_checkpoint, write_checkpoint

KIND = "base"
"""The kind that a base network's checkpoint declares."""

REMEDY = "make one with `implanting pretrain`"
"""The advice in errors about a missing or unsuitable file."""

TRAINED_HERE = ("fc100", "miniimagenet")
"""The names of the networks that come with this package."""

LONGEST_MEAN = 1.01
"""Longer mean directions are not the mean of unit vectors."""

USUAL_WIDTH = 64
"""Networks up to this width, the paper's, take at most 32 MB and are built without checking a file's claims first."""


def base_document(base: BaseNetwork) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what another file must contain to embed a base network: a JSON document and tensors."""
    if base.description is not None:
        return base.description.document(), base.tensors
    if not isinstance(base.network, EfficientNetLite | SideBySide):
        raise ConfigError(
            f"{base.name} is a network of your own, which a file cannot hold: save slim, and pass it again on loading"
        )
    return imagenet_document(base), base.tensors | imagenet_classes(base.network)


def base_from_document(
    document: Mapping[str, Any], tensors: Mapping[str, Tensor], path: str | Path = "the base network"
) -> BaseNetwork:
    """Rebuild the result of `base_document`, ignoring other entries and tensors. `path` names the file in errors."""
    if (origin := document.get("origin")) is not None:
        if origin not in IMAGENET_BASES:
            raise CheckpointError(
                f"{path} holds a base of the kind '{origin}', unknown to this version: update implanting"
            )
        return imagenet_from_document(document, tensors, path)
    description = _read_description(document, path)
    if description.config.architecture.width > USUAL_WIDTH or description.config.pooling == "flatten":
        _check_size(description, tensors, path)
    network, classifier = build(description.config, len(description.class_names), description.image_size)
    load_weights(network, classifier, tensors, path)
    mean = _mean_direction(tensors, network.dim, path)
    return BaseNetwork.from_training(network, classifier, description, part("method", tensors), mean)


def _mean_direction(tensors: Mapping[str, Tensor], dim: int, path: str | Path) -> Float[Tensor, " dim"] | None:
    mean = tensors.get(MEAN_DIRECTION)
    if mean is None:
        return None
    # a mean of unit vectors has a length of at most 1, up to rounding
    if mean.shape != (dim,) or not mean.is_floating_point() or not mean.float().norm() < LONGEST_MEAN:
        raise CheckpointError(f"{path} is damaged: its mean direction does not fit its network; copy it again")
    return mean.float()


def load_base(path: str | Path, device: str = "cpu") -> BaseNetwork:
    """Load a base network from a file or by name.

    "efficientnet-lite0" and "efficientnet-lite2" were trained on ImageNet, and "lite0+lite2" is both side by side;
    "fc100" and "miniimagenet" were trained by stage 1 on the base classes of these data sets.
    """
    if str(path) in IMAGENET_BASES:
        return imagenet_base(str(path)).to(device)
    file = _bundled_file(str(path)) if str(path) in TRAINED_HERE else Path(path)
    return base_from_document(*read_checkpoint(file, KIND, REMEDY), file).to(device)


def _bundled_file(name: str) -> Path:
    path = BUNDLED / f"{name}.safetensors"
    if not path.is_file():
        raise CheckpointError(
            f"the base '{name}' is not part of this installation ({path} is missing): install implanting again, or "
            "make one with `implanting pretrain`"
        )
    return path


def save_base(
    path: Path,
    network: Network,
    classifier: CosineClassifier | None,
    description: BaseDescription,
    further: Mapping[str, Tensor] | None = None,
    *,
    half: bool = False,
) -> None:
    """Write a base network, together with the state that an unfinished training needs to resume.

    `half` rounds weights to half precision, which halves the file; they are computed with in single precision.
    """
    tensors = {**weights(network, classifier), **(further or {})}
    if half:
        tensors = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    write_checkpoint(path, KIND, description.document(), tensors)


def read_base(path: Path) -> tuple[BaseDescription, dict[str, Tensor]]:
    """Read the description and the tensors of a base network's checkpoint."""
    document, tensors = read_checkpoint(path, KIND, REMEDY)
    return _read_description(document, path), tensors


def _read_description(document: Mapping[str, Any], path: Path | str) -> BaseDescription:
    """Read the description from the document of a checkpoint."""
    try:
        return BaseDescription.from_document(document)
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as error:
        raise CheckpointError(f"{path} is damaged: its description cannot be read ({error!r}); train again") from error


def _check_size(description: BaseDescription, tensors: Mapping[str, Tensor], path: Path | str) -> None:
    """Reject a description whose network differs in size from the weights, before allocating memory for it."""
    held = part("network", tensors) | part("classifier", tensors)
    try:
        claimed = count_numbers(description.config, len(description.class_names), description.image_size)
    except (RuntimeError, ImplantingError) as error:
        raise CheckpointError(
            f"{path} is damaged: no network has its configuration ({error}); copy it again"
        ) from error
    if claimed != sum(tensor.numel() for tensor in held.values()):
        raise CheckpointError(
            f"{path} is damaged: the tensors of its network do not fit its configuration; copy it again"
        )


def load_weights(
    network: Network, classifier: CosineClassifier | None, tensors: Mapping[str, Tensor], path: Path | str
) -> None:
    """Load the result of `weights` in place, ignoring other tensors."""
    modules: dict[str, nn.Module | None] = {"network": network, "classifier": classifier}
    for name, module in modules.items():
        if module is None:
            continue
        try:
            module.load_state_dict(part(name, tensors))
        except RuntimeError as error:
            raise CheckpointError(
                f"{path} is damaged: the tensors of its {name} do not fit its configuration; copy it again"
            ) from error
