"""`BaseNetwork`: a frozen network with its preprocessing, whatever network it is and wherever its weights came from.

How it is best used where the user does not say is data that it carries, as validation classes showed it
(`docs/lab-log.md`).
"""

import copy
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from implanting.base.description import BaseDescription
from implanting.base.embedding import embed, map_readings, read
from implanting.config import DataConfig, Pooling, TrainingMethod
from implanting.dense_classification import CosineClassifier
from implanting.errors import ConfigError
from implanting.images import Preprocessing
from implanting.networks import (
    TEMPERATURE,
    Embedding,
    ImplantedModule,
    ModuleNetwork,
    Network,
    Tail,
    device_of,
    folded,
    packed,
    reading_dims,
)
from implanting.runtime import Progress, prefixed, silent

FEW_SHOTS = 3
"""With fewer supports per class, more views of each may help."""

RECOGNISED, UNRECOGNISED, MOST_UNKNOWN = 3.8, 4.8, 5.0
"""Mean entropy, in nats, of the answers of a base to the supports up to which it recognises them, and from which it
does not: photos have 2.9 to 3.8, drawn characters 4.9. Images that it does not recognise differ in its middle layers,
which there weigh `MOST_UNKNOWN` times as much (docs/lab-log.md)."""


@dataclass(frozen=True)
class HeadDefaults:
    """How a head is trained on the readings of a base; the defaults are for networks of which nothing is known."""

    reading_weights: tuple[tuple[float, ...], ...] = ((1.0,),)
    """The weight of each reading. The first row is the rule; a task whose held-out supports are clearly better off with
    another row takes that."""
    recognition: tuple[tuple[int, int], ...] = ()
    """Pairs of readings: rooted probabilities of known classes, and a middle reading whose weight in the first row is
    multiplied by up to `MOST_UNKNOWN`, the less these probabilities recognise the supports."""
    penalty: float = 0.1
    """On the squared length of class weights, half of it, against the sum of cross-entropies."""
    few_shot_views: int = 1
    """Views of each support that are averaged where supports are few."""
    calibrations: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """How sure a head of so many supports per class may be, for tasks whose supports cannot tell."""

    def support_views(self, shots: int) -> int:
        """Views of each support that are averaged, with so many supports per class."""
        return self.few_shot_views if shots < FEW_SHOTS else 1

    def weights_for(self, supports: Float[Tensor, "image dim"], dims: Sequence[int]) -> tuple[tuple[float, ...], ...]:
        """Weights of the readings to choose among for these supports; the first row is the rule."""
        rule, parts = list(self.reading_weights[0]), supports.split(list(dims), dim=1)
        for classes, middle in self.recognition:
            unknown = (mean_entropy(parts[classes]) - RECOGNISED) / (UNRECOGNISED - RECOGNISED)
            rule[middle] *= MOST_UNKNOWN ** min(max(unknown, 0.0), 1.0)
        return tuple(rule), *self.reading_weights[1:]


def mean_entropy(rooted: Float[Tensor, "image known_class"]) -> float:
    """The mean entropy of answers at temperature 1, in nats, from roots of their probabilities at `TEMPERATURE`."""
    answers = torch.softmax(2 * TEMPERATURE * rooted.clamp_min(1e-12).log(), dim=1)
    return torch.special.entr(answers).sum(1).mean().item()


@dataclass(frozen=True)
class UsageDefaults:
    """Defaults of one base network; those of these fields are for networks of which nothing is known."""

    implants_from_shots: int = 5
    """With how many supports per class implants help."""
    few_shot_views: int = 1
    """Views of each support that a prototype averages where supports are few."""
    calibrations: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """How sure prototypes of so many supports per class may be."""
    head: HeadDefaults = field(default_factory=HeadDefaults)
    """How a head is trained."""
    implants_beat_head: bool = False
    """Whether implants with prototypes are better than a head, where both can be had."""

    def support_views(self, shots: int) -> int:
        """Views of each support that a prototype averages, with so many supports per class."""
        return self.few_shot_views if shots < FEW_SHOTS else 1

    def for_scaled_tau(self, factor: float) -> "UsageDefaults":
        """The same for a tau that is `factor` times as large: the powers of calibrations undo it."""
        scaled = {shots: {**stored, "power": stored["power"] / factor} for shots, stored in self.calibrations.items()}
        return dataclasses.replace(self, calibrations=scaled)


def _usage_of(description: BaseDescription) -> UsageDefaults:
    """Of a network that stage 1 trained, as FC100's validation classes and its own validation showed."""
    calibration = description.training.calibration
    return UsageDefaults(
        implants_from_shots=2, calibrations={1: calibration} if calibration else {}, implants_beat_head=True
    )


class BaseNetwork:
    """A network in evaluation mode whose weights no longer change, and the way into it for uint8 images."""

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
    ) -> None:
        self.network = network.eval().requires_grad_(False)
        self.preprocessing = preprocessing
        self.name = name
        """A short name for people."""
        self.pooling: Pooling = pooling
        """How it was trained, which sets how queries are pooled unless the caller says otherwise."""
        self.classifier = classifier.eval().requires_grad_(False) if classifier is not None else None
        self.description = description
        """The description of its training; None for a network that this project did not train."""
        self.usage = usage or UsageDefaults()
        """How to use it where the user does not say."""
        self.method_tensors: Mapping[str, Tensor] = dict(sorted((method_tensors or {}).items()))
        """What the method that it was trained by learned beside the network (`baselines`)."""
        self._tau = tau
        self._quick: tuple[Embedding, Embedding] | None = None

    @classmethod
    def from_training(
        cls,
        network: Network,
        classifier: CosineClassifier | None,
        description: BaseDescription,
        method_tensors: Mapping[str, Tensor] | None = None,
    ) -> "BaseNetwork":
        """What stage 1 made."""
        return cls(
            network,
            description.preprocessing,
            name=description.name,
            pooling=description.config.pooling,
            tau=1.0 if classifier is None else classifier.tau.item(),
            classifier=classifier,
            description=description,
            usage=_usage_of(description),
            method_tensors=method_tensors,
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
        """A frozen copy of one's own torch module that ends in a map [n, d, h, w] or in tokens [n, tokens, d].

        `tail` names the convolutions beside which implants stand; without it prototypes and dense queries work, but not
        implants. `prefix_tokens` stand before the locations (1 for the class token of a vision transformer), `method`
        is the one that gives the map (`"forward_features"` in timm). Where `tau` is None, `with_tau_from` chooses one.
        """
        network = ModuleNetwork(copy.deepcopy(module), preprocessing.image_size, tail, prefix_tokens, method)
        return cls(network, preprocessing, name=name or type(module).__name__, pooling=pooling, tau=tau)

    def with_tau(self, tau: float) -> "BaseNetwork":
        """The same network, its weights shared, with another scale of the cosine."""
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
        """The implanted layers; None where implants cannot be had."""
        return self.network.tail

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that it was trained on, where they are known."""
        return self.description.class_names if self.description else ()

    @property
    def class_weights(self) -> Float[Tensor, "way weight_dim"] | None:
        """The learned weights of these classes, where they are weights of a cosine."""
        return self.classifier.class_weights if self.classifier else None

    @property
    def method(self) -> TrainingMethod:
        """How it was trained."""
        return self.description.config.method if self.description else "cosine"

    @property
    def data(self) -> DataConfig:
        """How the data that it was trained on was read and split; the defaults where that is not known."""
        return self.description.config.data if self.description else DataConfig()

    @property
    def finished(self) -> bool:
        """Whether its training came to its end."""
        return self.description is None or self.description.training.finished

    @property
    def device(self) -> torch.device:
        """Where the network computes."""
        return device_of(self.network)

    @property
    def quick(self) -> Embedding:
        """The network that computes: a copy with faster convolutions and no batch norm, made when first needed."""
        if self._quick is None or self._quick[0] is not self.network:
            module, size = cast(nn.Module, self.network), self.preprocessing.image_size
            self._quick = self.network, cast(Embedding, packed(folded(module, size), size))
        return self._quick[1]

    def to(self, device: str | torch.device) -> "BaseNetwork":
        """Moved to a device, in place, as torch's modules are."""
        if self.device != torch.device(device):  # else every fit would fold again
            self._quick = None
        self.network.to(device)
        if self.classifier is not None:
            self.classifier.to(device)
        self.method_tensors = {name: value.to(device) for name, value in self.method_tensors.items()}
        return self

    def __getstate__(self) -> dict[str, Any]:
        """For pickles: without the folded copy, which is made again when needed."""
        return {**self.__dict__, "_quick": None}

    def __deepcopy__(self, memo: Any) -> "BaseNetwork":
        """Itself: it never changes, so copies of what holds it, such as scikit-learn's clones, share it."""
        return self

    def map_size(self, height: int, width: int) -> tuple[int, int]:
        """The locations (rows, columns) that an image of this size gives."""
        return self.network.map_size(height, width)

    def embed(
        self, images: UInt8[Tensor, "image height width 3"], progress: Progress = silent
    ) -> Float[Tensor, "image location dim"]:
        """phi of each image, on the network's device."""
        self.map_size(*images.shape[1:3])
        return embed(self.quick, self.preprocessing.normalisation, images, progress)

    def read(
        self, images: UInt8[Tensor, "image height width 3"], progress: Progress = silent
    ) -> Float[Tensor, "image dim"]:
        """The readings of each image, each of unit length, joined; in memory."""
        self.map_size(*images.shape[1:3])
        return read(self.quick, self.preprocessing.normalisation, images, progress)

    def reading_maps(self, images: UInt8[Tensor, "image height width 3"]) -> Float[Tensor, "image dim rows columns"]:
        """The share of each location in `read`: its mean over locations is what that gives."""
        self.map_size(*images.shape[1:3])
        return map_readings(self.quick, self.preprocessing.normalisation, images)

    @property
    def reading_dims(self) -> tuple[int, ...]:
        """How many numbers each reading has."""
        return reading_dims(self.network)

    @torch.no_grad()
    def activations(
        self, images: UInt8[Tensor, "image height width 3"]
    ) -> tuple[list[Float[Tensor, "image _ _ _"]], Float[Tensor, "image dim out_rows out_columns"]]:
        """The base maps that the tail's layers read, and phi as a map."""
        self.map_size(*images.shape[1:3])
        return self.quick.activations(self.preprocessing.normalisation(images.to(self.device)))

    @property
    def parameters(self) -> int:
        """How many numbers of the network were trained."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def summary(self) -> dict[str, str]:
        """What people want to know first."""
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
        return facts | (self.description.summary() if self.description else {})

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The weights by the names they have in a file."""
        return weights(self.network, self.classifier) | prefixed("method", self.method_tensors)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the weights and the normalisation: equal for networks that compute the same."""
        digest = hashlib.sha256(repr(self.preprocessing.normalisation).encode())
        digest.update(self.network.identity_text.encode())
        for name, value in self.tensors.items():
            digest.update(name.encode() + value.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


def weights(network: Embedding, classifier: CosineClassifier | None) -> dict[str, Tensor]:
    """The tensors of a base network by the names they have in a checkpoint."""
    learned = {} if classifier is None else classifier.state_dict()
    return prefixed("network", network.state_dict()) | prefixed("classifier", learned)
