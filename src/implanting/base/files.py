"""Base networks by name and in files, and as a part of other files.

Those of a name come with this package (ResNet-12 of FC100) or beside it (`imagenet.py`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from implanting.base.base_network import BaseNetwork, weights
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
"""What a checkpoint of a base network calls itself."""

REMEDY = "make one with `implanting pretrain`"
"""What to do where there is none."""

FC100 = "fc100"

USUAL_WIDTH = 64
"""Up to the paper's own width a network takes 32 MB, whatever a file claims."""


def base_document(base: BaseNetwork) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """All that another file needs to hold in order to embed a base network: a JSON document and tensors."""
    if base.description is not None:
        return base.description.document(), base.tensors
    if not isinstance(base.network, EfficientNetLite | SideBySide):
        raise ConfigError(
            f"{base.name} is a network of your own, which a file cannot hold: save slim, and give it again on loading"
        )
    return imagenet_document(base), base.tensors | imagenet_classes(base.network)


def base_from_document(
    document: Mapping[str, Any], tensors: Mapping[str, Tensor], path: str | Path = "the base network"
) -> BaseNetwork:
    """The inverse of `base_document`; further entries and tensors are left alone. `path` names it in errors."""
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
    return BaseNetwork.from_training(network, classifier, description, part("method", tensors))


def load_base(path: str | Path, device: str = "cpu") -> BaseNetwork:
    """The base network of a file, or one that has a name.

    "efficientnet-lite0" and "efficientnet-lite2" were trained on ImageNet, and "lite0+lite2" is both side by side;
    "fc100" was trained on FC100.
    """
    if str(path) in IMAGENET_BASES:
        return imagenet_base(str(path)).to(device)
    file = _fc100_file() if str(path) == FC100 else Path(path)
    return base_from_document(*read_checkpoint(file, KIND, REMEDY), file).to(device)


def _fc100_file() -> Path:
    """The base network of FC100 that comes with this package."""
    path = BUNDLED / "fc100.safetensors"
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


def _check_size(description: BaseDescription, tensors: Mapping[str, Tensor], path: Path | str) -> None:
    """Refuse a description of a network of another size than the weights, before any memory is taken for it."""
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
