"""The systems that are trained by episodes: built for training, and again from the file of a trained base."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.baselines.dynamic_few_shot import DynamicFewShot, DynamicMethod
from implanting.baselines.joint import JointQueries
from implanting.baselines.maml import Maml, MamlMethod
from implanting.baselines.prototypical_networks import PrototypicalMethod, PrototypicalNetworks
from implanting.baselines.tadam import Tadam, TadamMethod
from implanting.baselines.vectors import pooled
from implanting.config import Pooling, PretrainConfig
from implanting.dense_classification import CosineClassifier
from implanting.errors import CheckpointError, ConfigError
from implanting.fewshot import Method
from implanting.images import Normalisation
from implanting.networks import Network

System = PrototypicalNetworks | DynamicFewShot | Maml | Tadam
"""A module with a `network` and with the system's further parameters (`own`); it maps episodes to loss and accuracy."""


def build_system(
    config: PretrainConfig,
    network: Network,
    classifier: CosineClassifier | None,
    classes: int,
    image_size: tuple[int, int],
) -> System:
    """A system with the initial weights of the configuration's seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        if config.method == "pn":
            return PrototypicalNetworks(network, config)
        if config.method == "gidaris" and classifier is not None:
            return DynamicFewShot(network, classifier, config)
        if config.method == "maml":
            rows, columns = network.map_size(*image_size)
            return Maml(network, config.episode, rows * columns)
        if config.method == "tadam":
            return Tadam(network, config, classes)
    raise ConfigError(f"`method` {config.method} is not trained by episodes")


def system_of(base: BaseNetwork) -> System:
    """The system that a base was trained as, its weights shared with the base."""
    described = base.description
    if described is None or not isinstance(base.network, Network):
        raise ConfigError(
            f"{base.name} was not trained by episodes: train one with `implanting pretrain` and `method` pn, gidaris, "
            "maml or tadam"
        )
    system = build_system(
        described.config, base.network, base.classifier, len(described.class_names), described.image_size
    )
    load_own(system, base.method_tensors, base.name)
    system.to(base.device)
    return system.requires_grad_(False).eval()


def system_method(
    system: System,
    images: UInt8[Tensor, "image height width 3"],
    normalisation: Normalisation,
    phi: Callable[[], Float[Tensor, "image location dim"]],
    pooling: Pooling,
    joint: JointQueries | None = None,
) -> Method:
    """The method by which a system answers tasks of these images; `phi` computes the plain features of the images."""
    if isinstance(system, Maml):
        return MamlMethod(system, images, normalisation)
    vectors = pooled(phi(), pooling)
    if isinstance(system, Tadam):
        return TadamMethod(system, images, normalisation, vectors)
    if isinstance(system, DynamicFewShot):
        return DynamicMethod(vectors, system.own, system.classifier.class_weights, joint)
    return PrototypicalMethod(vectors, system.config.episode.distance)


def load_own(system: System, tensors: Mapping[str, Tensor], name: str) -> None:
    """Load the further parameters of a system from the tensors of a file; `name` is the name of the file or base."""
    try:
        system.own.load_state_dict(dict(tensors))
    except RuntimeError as error:
        raise CheckpointError(f"{name} is damaged: the tensors of its method cannot be read; copy it again") from error
