"""`BaseNetwork`: what stage 1 leaves behind. A frozen network with its classifier, preprocessing and provenance."""

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from implanting.checkpoint import read_checkpoint, write_checkpoint
from implanting.classifiers import CosineClassifier
from implanting.config import PretrainConfig, config_from_dict
from implanting.errors import CheckpointError, ConfigError
from implanting.images import Normalisation
from implanting.networks import Network, build_network
from implanting.progress import Progress, silent
from implanting.similarity import locations

BATCH = 128
"""Images embedded at once."""


@dataclass(frozen=True)
class BaseDescription:
    """All that a checkpoint says of its base network beside the weights."""

    config: PretrainConfig
    class_names: tuple[str, ...]
    normalisation: Normalisation
    image_size: tuple[int, int]
    """Height and width of the training images."""
    resizing: str
    """How images were brought to that size."""
    data_name: str
    data_fingerprint: str
    held_out: tuple[int, ...]
    """Indices into the base images as read of those kept out of training."""
    code_version: str
    training: Mapping[str, Any]
    """Steps done and planned, whether finished, seconds, last loss, accuracy and validation."""

    @property
    def square_size(self) -> int | None:
        """The side to which other images are brought, or None where the training images were oblong as stored."""
        height, width = self.image_size
        return height if height == width else None

    def document(self) -> dict[str, Any]:
        """As the JSON document of a checkpoint."""
        return dataclasses.asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "BaseDescription":
        """The inverse of `document`."""
        values = {field.name: document[field.name] for field in dataclasses.fields(cls)}
        values["config"] = config_from_dict(PretrainConfig, values["config"])
        values["normalisation"] = Normalisation(**{key: tuple(value) for key, value in values["normalisation"].items()})
        for name in ("class_names", "image_size", "held_out"):
            values[name] = tuple(values[name])
        described = cls(**values)
        _height, _width = described.image_size
        if missing := TRAINING_KEYS - described.training.keys():
            raise KeyError(min(missing))
        return described


TRAINING_KEYS = frozenset({"step", "steps", "finished", "seconds", "device", "validation"})
"""What the summary of a training always tells."""


class BaseNetwork:
    """A network in evaluation mode whose weights no longer change, and the way into it for uint8 images."""

    def __init__(self, network: Network, classifier: CosineClassifier, description: BaseDescription) -> None:
        self.network = network.eval().requires_grad_(False)
        self.classifier = classifier.eval().requires_grad_(False)
        self.description = description

    @property
    def tau(self) -> float:
        """The learned scale of the cosine."""
        return self.classifier.tau.item()

    @property
    def device(self) -> torch.device:
        """Where the network computes."""
        return self.classifier.tau.device

    def embed(
        self, images: UInt8[Tensor, "image height width 3"], progress: Progress = silent
    ) -> Float[Tensor, "image location dim"]:
        """phi of each image, on the network's device."""
        self.network.map_size(*images.shape[1:3])
        return embed(self.network, self.description.normalisation, images, self.device, progress)

    @torch.no_grad()
    def activations(
        self, images: UInt8[Tensor, "image height width 3"]
    ) -> tuple[list[Float[Tensor, "image _ rows columns"]], Float[Tensor, "image dim out_rows out_columns"]]:
        """The maps that implants read (the last block's input and its convolutions' activations), and phi."""
        self.network.map_size(*images.shape[1:3])
        return self.network.last_block(self.description.normalisation(images.to(self.device)))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the weights and the normalisation: equal for networks that compute the same."""
        digest = hashlib.sha256(repr(self.description.normalisation).encode())
        for name, value in weights(self.network, self.classifier).items():
            digest.update(name.encode() + value.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


@torch.inference_mode()
def embed(
    network: Network,
    normalisation: Normalisation,
    images: UInt8[Tensor, "image height width 3"],
    device: torch.device,
    progress: Progress = silent,
) -> Float[Tensor, "image location dim"]:
    """phi of each image by a network that is in evaluation mode."""
    batches = images.split(BATCH)
    parts = [
        locations(network(normalisation(batch.to(device)))) for batch in progress(batches, "embedding", len(batches))
    ]
    return torch.cat(parts)


def build(config: PretrainConfig, classes: int, image_size: tuple[int, int]) -> tuple[Network, CosineClassifier]:
    """A network and its classifier with the initial weights of the configuration's seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        network = build_network(config.architecture)
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch's stubs lack it
        classifier = CosineClassifier(classes, network.dim, config.pooling, config.tau, network.map_size(*image_size))
    return network, classifier


def weights(network: Network, classifier: CosineClassifier) -> dict[str, Tensor]:
    """The tensors of a base network by the names they have in a checkpoint."""
    parts = {"network": network, "classifier": classifier}
    return {f"{part}.{name}": value for part, module in parts.items() for name, value in module.state_dict().items()}


def load_weights(network: Network, classifier: CosineClassifier, tensors: Mapping[str, Tensor], path: Path) -> None:
    """The inverse of `weights`, in place; further tensors are left alone."""
    for part, module in {"network": network, "classifier": classifier}.items():
        prefix = f"{part}."
        own = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        try:
            module.load_state_dict(own)
        except RuntimeError as error:
            raise CheckpointError(
                f"{path} is damaged: the tensors of its {part} do not fit its configuration; copy it anew"
            ) from error


KIND = "base"
"""What a checkpoint of a base network calls itself."""


def save_base(
    path: Path,
    network: Network,
    classifier: CosineClassifier,
    description: BaseDescription,
    further: Mapping[str, Tensor] | None = None,
) -> None:
    """Write a base network, and beside it what an unfinished training needs to go on."""
    write_checkpoint(path, KIND, description.document(), {**weights(network, classifier), **(further or {})})


def read_base(path: Path) -> tuple[BaseDescription, dict[str, Tensor]]:
    """The description and the tensors of a base network's checkpoint."""
    document, tensors = read_checkpoint(path, KIND)
    try:
        return BaseDescription.from_document(document), tensors
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as error:
        raise CheckpointError(f"{path} is damaged: its description cannot be read ({error!r}); train again") from error


def load_base(path: str | Path, device: str = "cpu") -> BaseNetwork:
    """The base network of a checkpoint; no flags are needed."""
    description, tensors = read_base(Path(path))
    network, classifier = build(description.config, len(description.class_names), description.image_size)
    load_weights(network, classifier, tensors, Path(path))
    return BaseNetwork(network.to(device), classifier.to(device), description)
