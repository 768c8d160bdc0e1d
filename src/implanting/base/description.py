"""The description of a network trained by stage 1, and the initial network of a training."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import torch
from msgspec import Meta

from implanting.base.training_facts import Count, TrainingFacts
from implanting.config import CLASSIFYING, LARGEST_SIDE, PretrainConfig, config_from_dict, retired_settings
from implanting.dense_classification import CosineClassifier
from implanting.images import Normalisation, Preprocessing
from implanting.networks import Network, build_network
from implanting.runtime import checked

Side = Annotated[int, Meta(ge=1, le=LARGEST_SIDE)]


@dataclass(frozen=True)
class Stored:
    """`BaseDescription` as a checkpoint's document stores it, with the settings of any version."""

    config: dict[str, Any]
    class_names: tuple[str, ...]
    normalisation: Normalisation
    image_size: tuple[Side, Side]
    resizing: str
    data_name: str
    data_fingerprint: str
    held_out: tuple[Count, ...]
    code_version: str
    training: TrainingFacts
    teacher_fingerprint: str | None = None
    retired: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BaseDescription:
    """Everything a checkpoint stores about its base network except the weights."""

    config: PretrainConfig
    class_names: tuple[str, ...]
    normalisation: Normalisation
    image_size: tuple[int, int]
    """Height and width of the training images."""
    resizing: str
    """How images were resized to that size."""
    data_name: str
    data_fingerprint: str
    held_out: tuple[int, ...]
    """Indices of the images held out of training, in the order in which the base images were read."""
    code_version: str
    training: TrainingFacts
    teacher_fingerprint: str | None = None
    """Fingerprint of its teacher network; None if it had none, and in files of earlier versions."""
    retired: Mapping[str, Any] = field(default_factory=dict)
    """Settings from an earlier version, used in its training, that this version no longer supports."""

    @property
    def name(self) -> str:
        """A short name for display."""
        network = self.config.architecture
        several = f"{network.members} x " if network.members > 1 else ""
        wide = ", wide," * network.wide
        return f"{several}{network.network} of width {network.width}{wide} trained on {self.data_name}"

    @property
    def preprocessing(self) -> Preprocessing:
        """How images must be prepared for the network."""
        return Preprocessing(self.image_size, self.normalisation, self.resizing)

    def document(self) -> dict[str, Any]:
        """Return the JSON document of a checkpoint."""
        return {**dataclasses.asdict(self), "training": self.training.document()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "BaseDescription":
        """Read and check the result of `document`."""
        stored = checked(document, Stored)
        noted = {**stored.retired, **retired_settings(stored.config)}
        values = {name: value for name, value in vars(stored).items() if name != "retired"}
        return cls(**values | {"config": config_from_dict(PretrainConfig, stored.config), "retired": noted})

    def summary(self) -> dict[str, str]:
        """The main facts about the training, by title, for display."""
        training = self.training
        state = "finished" if training.finished else f"unfinished: step {training.step} of {training.steps}"
        return {
            "data": self.data_name,
            "held out": f"{len(self.held_out)} images",
            "training": f"{state}, {training.seconds / 60:.1f} min on {training.device}",
        }


def count_numbers(config: PretrainConfig, classes: int, image_size: tuple[int, int]) -> int:
    """Count the parameters of such a network and its classifier without building it: a bad file may claim gigabytes.

    The number is a quadratic polynomial in the width, determined by building three small networks.
    """
    one, two, three = (_count_small(config, width, classes, image_size) for width in (1, 2, 3))
    width = config.architecture.width
    first, second, third = (width - 2) * (width - 3), (width - 1) * (width - 3), (width - 1) * (width - 2)
    return (one * first - 2 * two * second + three * third) // 2


def _count_small(config: PretrainConfig, width: int, classes: int, image_size: tuple[int, int]) -> int:
    architecture = dataclasses.replace(config.architecture, width=width)
    network, classifier = build(dataclasses.replace(config, architecture=architecture), 1, image_size)
    fixed = sum(tensor.numel() for tensor in network.state_dict().values())
    if classifier is None:
        return fixed
    return fixed + classes * classifier.class_weights.numel() + classifier.tau.numel()


def build(config: PretrainConfig, classes: int, image_size: tuple[int, int]) -> tuple[Network, CosineClassifier | None]:
    """Build a network and, if it learns class weights, its classifier, with initial weights drawn from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        network = build_network(config.architecture)
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch's stubs lack it
        if config.method not in CLASSIFYING:
            return network, None
        classifier = CosineClassifier(classes, network.dim, config.pooling, config.tau, network.map_size(*image_size))
    return network, classifier
