"""What stage 1 tells of a trained network beside its weights; and a network as training begins."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from implanting.base.training_facts import TrainingFacts
from implanting.config import CLASSIFYING, PretrainConfig, config_from_dict, retired_settings
from implanting.dense_classification import CosineClassifier
from implanting.images import Normalisation, Preprocessing
from implanting.networks import Network, build_network


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
    training: TrainingFacts
    teacher_fingerprint: str | None = None
    """Of the base network that taught it; None where none did, and in files of earlier versions."""
    retired: Mapping[str, Any] = field(default_factory=dict)
    """Settings of an earlier version that it was trained with and that this version cannot train with."""

    @property
    def name(self) -> str:
        """A short name for people."""
        network = self.config.architecture
        return f"{network.network} of width {network.width}{', wide,' * network.wide} trained on {self.data_name}"

    @property
    def preprocessing(self) -> Preprocessing:
        """What the network expects of its images."""
        return Preprocessing(self.image_size, self.normalisation, self.resizing)

    def document(self) -> dict[str, Any]:
        """As the JSON document of a checkpoint."""
        return {**dataclasses.asdict(self), "training": self.training.document()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "BaseDescription":
        """The inverse of `document`."""
        noted = {"teacher_fingerprint": None, "retired": {}, **document}  # which earlier versions did not note
        values = {field.name: noted[field.name] for field in dataclasses.fields(cls)}
        values["retired"] = {**values["retired"], **retired_settings(values["config"])}
        values["config"] = config_from_dict(PretrainConfig, values["config"])
        values["normalisation"] = Normalisation(**{key: tuple(value) for key, value in values["normalisation"].items()})
        for name in ("class_names", "image_size", "held_out"):
            values[name] = tuple(values[name])
        _height, _width = values["image_size"]
        return cls(**values | {"training": TrainingFacts.from_document(values["training"])})

    def summary(self) -> dict[str, str]:
        """Of the training, what people want to know first."""
        training = self.training
        state = "finished" if training.finished else f"unfinished: step {training.step} of {training.steps}"
        return {
            "data": self.data_name,
            "held out": f"{len(self.held_out)} images",
            "training": f"{state}, {training.seconds / 60:.1f} min on {training.device}",
        }


def build(config: PretrainConfig, classes: int, image_size: tuple[int, int]) -> tuple[Network, CosineClassifier | None]:
    """A network and, where it learns class weights, its classifier, with the initial weights of the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        network = build_network(config.architecture)
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch's stubs lack it
        if config.method not in CLASSIFYING:
            return network, None
        classifier = CosineClassifier(classes, network.dim, config.pooling, config.tau, network.map_size(*image_size))
    return network, classifier
