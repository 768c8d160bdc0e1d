"""`BaseNetwork`: a frozen network with its preprocessing, whatever its architecture and the origin of its weights.

It also carries the defaults for settings that the user leaves open (`usage.py`).
"""

import copy
import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, cast

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from implanting.base.description import BaseDescription
from implanting.base.embedding import embed, map_readings, read
from implanting.base.usage import UsageDefaults, usage_of
from implanting.config import DataConfig, Pooling, TrainingMethod
from implanting.dense_classification import CosineClassifier
from implanting.errors import ConfigError
from implanting.images import Preprocessing
from implanting.networks import (
    Embedding,
    ImplantedModule,
    ModuleNetwork,
    Network,
    Tail,
    device_of,
    quickened,
    reading_dims,
)
from implanting.runtime import Progress, prefixed, silent

MEAN_DIRECTION = "mean_direction"
"""The name of that tensor in a file."""


class BaseNetwork:
    """A network in evaluation mode with frozen weights, and the preprocessing that feeds it uint8 images."""

    def __init__(
        self,
        network: Embedding,
        preprocessing: Preprocessing,
        *,
        name: str,
        pooling: Pooling,
        tau: float | None,
        classifier: CosineClassifier | None = None,
        description: BaseDescription | None = None,
        usage: UsageDefaults | None = None,
        method_tensors: Mapping[str, Tensor] | None = None,
        mean_direction: Float[Tensor, " dim"] | None = None,
    ) -> None:
        self.network = network.eval().requires_grad_(False)
        self.preprocessing = preprocessing
        self.name = name
        """A short name for display."""
        self.pooling: Pooling = pooling
        """The pooling it was trained with, which is also the default pooling of queries."""
        self.classifier = classifier.eval().requires_grad_(False) if classifier is not None else None
        self.description = description
        """The description of its training; None for a network that was not trained with this project."""
        self.usage = usage or UsageDefaults()
        """Defaults for settings that the user leaves open."""
        self.method_tensors: Mapping[str, Tensor] = dict(sorted((method_tensors or {}).items()))
        """Tensors that its training method learned in addition to the network (`baselines`)."""
        self.mean_direction = mean_direction
        """The mean direction of base images pooled by gem, which gem-centred removes; None if it is not known."""
        self._tau = tau
        self._quick: tuple[Embedding, Embedding] | None = None

    @classmethod
    def from_training(
        cls,
        network: Network,
        classifier: CosineClassifier | None,
        description: BaseDescription,
        method_tensors: Mapping[str, Tensor] | None = None,
        mean_direction: Float[Tensor, " dim"] | None = None,
    ) -> "BaseNetwork":
        """Make a base network from the result of stage 1; with a mean direction, it also reads the generalised mean."""
        network.reads_gem = mean_direction is not None
        return cls(
            network,
            description.preprocessing,
            name=description.name,
            pooling=description.config.pooling,
            tau=1.0 if classifier is None else classifier.tau.item(),
            classifier=classifier,
            description=description,
            usage=usage_of(description, generalised=mean_direction is not None),
            method_tensors=method_tensors,
            mean_direction=mean_direction,
        )

    @classmethod
    def from_module(
        cls,
        module: nn.Module,
        preprocessing: Preprocessing,
        *,
        name: str | None = None,
        pooling: Literal["dense", "gap", "gmp"] = "gap",
        tau: float | None = None,
        tail: Sequence[ImplantedModule] = (),
        prefix_tokens: int = 0,
        method: str = "forward",
    ) -> "BaseNetwork":
        """Make a frozen copy of your own torch module, which must return a map [n, d, h, w] or tokens [n, tokens, d].

        `tail` names the convolutions to which implants are added; without it, prototypes and dense queries work, but
        implants do not. `prefix_tokens` is the number of tokens before those of the locations (1 for the class token
        of a vision transformer). `method` is the module's method that returns the map (`"forward_features"` in timm).
        If `tau` is None, choose one with `with_tau_from`.
        """
        network = ModuleNetwork(copy.deepcopy(module), preprocessing.image_size, tail, prefix_tokens, method)
        return cls(network, preprocessing, name=name or type(module).__name__, pooling=pooling, tau=tau)

    def with_tau(self, tau: float) -> "BaseNetwork":
        """Return a base that shares this network's weights but has another scale of the cosine."""
        if self.classifier is not None:
            raise ConfigError(f"{self.name} has learned its tau; another one can be set for networks that have not")
        other = copy.copy(self)
        other._tau = tau
        if self._tau is not None:
            other.usage = self.usage.for_scaled_tau(tau / self._tau)
        return other

    @property
    def tau(self) -> float:
        """The scale of the cosine: learned in training, or chosen on validation images."""
        if self._tau is None:
            raise ConfigError(
                f"{self.name} has no tau, the scale of the cosine: give tau=... with the network, or choose one on "
                "images of other classes by with_tau_from(base, image_set)"
            )
        return self._tau

    @property
    def tail(self) -> Tail | None:
        """The layers to which implants are added; None if implants are not possible."""
        return self.network.tail

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes it was trained on; empty if they are not known."""
        return self.description.class_names if self.description else ()

    @property
    def class_weights(self) -> Float[Tensor, "way weight_dim"] | None:
        """The learned weights of these classes, if its classifier was a cosine classifier."""
        return self.classifier.class_weights if self.classifier else None

    @property
    def method(self) -> TrainingMethod:
        """The method it was trained with."""
        return self.description.config.method if self.description else "cosine"

    def require_features(self) -> None:
        """Refuse a base whose features mean nothing until it has been trained on the supports of a task."""
        if self.method == "maml":
            raise ConfigError(
                f"{self.name} was trained by maml and answers only as maml does: use it with `implanting evaluate`, or "
                "choose another base"
            )

    @property
    def data(self) -> DataConfig:
        """How its training data was read and split; the defaults if that is not known."""
        return self.description.config.data if self.description else DataConfig()

    @property
    def finished(self) -> bool:
        """Whether its training is finished."""
        return self.description is None or self.description.training.finished

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return device_of(self.network)

    @property
    def quick(self) -> Embedding:
        """A copy with faster convolutions and folded batch norm, which does the computing; made when first needed."""
        if self._quick is None or self._quick[0] is not self.network:
            module, size = cast(nn.Module, self.network), self.preprocessing.image_size
            self._quick = self.network, cast(Embedding, quickened(module, size))
        return self._quick[1]

    def to(self, device: str | torch.device) -> "BaseNetwork":
        """Move to a device, in place, as torch's modules do."""
        if self.device != torch.device(device):  # otherwise every fit would fold the network again
            self._quick = None
        self.network.to(device)
        if self.classifier is not None:
            self.classifier.to(device)
        self.method_tensors = {name: value.to(device) for name, value in self.method_tensors.items()}
        if self.mean_direction is not None:
            self.mean_direction = self.mean_direction.to(device)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the folded copy, which is made again when needed."""
        return {**self.__dict__, "_quick": None}

    def __deepcopy__(self, memo: Any) -> "BaseNetwork":
        """Return itself: it never changes, so copies of its holders, such as scikit-learn's clones, can share it."""
        return self

    def map_size(self, height: int, width: int) -> tuple[int, int]:
        """Return the size (rows, columns) of the feature map of an image of this size."""
        return self.network.map_size(height, width)

    def embed(
        self, images: UInt8[Tensor, "image height width 3"], progress: Progress = silent
    ) -> Float[Tensor, "image location dim"]:
        """Compute phi of each image, on the network's device."""
        self.map_size(*images.shape[1:3])
        return embed(self.quick, self.preprocessing.normalisation, images, progress)

    def read(
        self, images: UInt8[Tensor, "image height width 3"], progress: Progress = silent
    ) -> Float[Tensor, "image dim"]:
        """Compute the readings of each image, each of unit length, and concatenate them in CPU memory."""
        self.map_size(*images.shape[1:3])
        return read(self.quick, self.preprocessing.normalisation, images, progress)

    def reading_maps(self, images: UInt8[Tensor, "image height width 3"]) -> Float[Tensor, "image dim rows columns"]:
        """Compute the contribution of each location to `read`, whose result is their mean over locations."""
        self.map_size(*images.shape[1:3])
        return map_readings(self.quick, self.preprocessing.normalisation, images)

    @property
    def reading_dims(self) -> tuple[int, ...]:
        """The number of dimensions of each reading."""
        return reading_dims(self.network)

    @torch.no_grad()
    def activations(
        self, images: UInt8[Tensor, "image height width 3"]
    ) -> tuple[list[Float[Tensor, "image _ _ _"]], Float[Tensor, "image dim out_rows out_columns"]]:
        """Compute the base maps that the tail's layers take as input, and phi as a map."""
        self.map_size(*images.shape[1:3])
        return self.quick.activations(self.preprocessing.normalisation(images.to(self.device)))

    @property
    def parameters(self) -> int:
        """Number of parameters of the network."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def summary(self) -> dict[str, str]:
        """The main facts, by title, for display."""
        height, width = self.preprocessing.image_size
        rows, columns = self.map_size(height, width)
        classes = f"{len(self.class_names)}: {', '.join(self.class_names)}" if self.class_names else "not known by name"
        facts = {
            "network": self.name,
            "parameters": f"{self.parameters:,}",
            "images": f"{width} x {height} px ({self.preprocessing.resizing})",
            "features": f"{self.network.dim} at {rows} x {columns} locations",
            "trained with": f"{self.pooling} classification" if self.method == "cosine" else self.method,
            "tau": "none" if self._tau is None else f"{self._tau:.2f}",
            "base classes": classes,
            "implants": f"beside {len(self.tail.layers)} layers" if self.tail else "not described for this network",
        }
        if self.usage.pooling is not None:
            facts["tested with"] = f"{self.usage.pooling}, if no pooling is named"
        return facts | (self.description.summary() if self.description else {})

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The weights, by their names in a file."""
        own = {} if self.mean_direction is None else {MEAN_DIRECTION: self.mean_direction}
        return weights(self.network, self.classifier) | prefixed("method", self.method_tensors) | own

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the weights and the normalisation; equal for networks that compute the same function."""
        digest = hashlib.sha256(repr(self.preprocessing.normalisation).encode())
        digest.update(self.network.identity_text.encode())
        for name, value in self.tensors.items():
            digest.update(name.encode())
            digest.update(value.cpu().contiguous().numpy().data)
        return digest.hexdigest()


def weights(network: Embedding, classifier: CosineClassifier | None) -> dict[str, Tensor]:
    """Return the tensors of a base network, by their names in a checkpoint."""
    learned = {} if classifier is None else classifier.state_dict()
    return prefixed("network", network.state_dict()) | prefixed("classifier", learned)
