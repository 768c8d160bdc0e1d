"""Toy data and networks that the tests share."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from implanting.base import BaseDescription, BaseNetwork, TrainingFacts, Validation, build
from implanting.config import AugmentConfig, NetworkConfig, PretrainConfig
from implanting.datasets import ImageSet
from implanting.images import Normalisation
from implanting.pretraining import pretrain


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, shape, generator=seeded(seed), dtype=torch.uint8)


def labelled(labels: Sequence[int], classes: int | None = None) -> ImageSet:
    """Black images of one pixel: all that tasks look at is the labels."""
    names = tuple(f"class {number}" for number in range(classes or max(labels) + 1))
    return ImageSet(torch.zeros(len(labels), 1, 1, 3, dtype=torch.uint8), torch.tensor(labels), names, "toy", "none")


def coloured(classes: int = 3, per_class: int = 8, size: int = 16, seed: int = 0, prefix: str = "colour") -> ImageSet:
    """Noisy images in the colour of their class, in mixed order."""
    generator = seeded(seed)
    colours = torch.randint(40, 216, (classes, 3), generator=generator)
    labels = torch.arange(classes).repeat(per_class)
    speckles = torch.randint(-40, 40, (len(labels), size, size, 3), generator=generator)
    images = (colours[labels][:, None, None, :] + speckles).to(torch.uint8)
    names = tuple(f"{prefix} {number}" for number in range(classes))
    return ImageSet(images, labels, names, f"{prefix}s", "none")


def tiny_config(**changes: Any) -> PretrainConfig:
    """Training that takes a fraction of a second."""
    tiny = PretrainConfig(
        architecture=NetworkConfig(width=2),
        augment=AugmentConfig(crop_padding=2),
        batch_size=8,
        iterations=6,
        validation_tasks=0,
    )
    return dataclasses.replace(tiny, **changes)


def unsettle(module: nn.Module, seed: int = 0) -> None:
    """Give every batch norm statistics and weights that are not those of its beginning."""
    generator = seeded(seed)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for tensor in (layer.running_mean, layer.running_var, layer.weight, layer.bias):
                tensor.data = torch.rand(tensor.shape, generator=generator) + 0.5
            layer.bias.data -= 1


def toy_base(size: int = 32, classes: int = 3, *, centred: bool = False, **changes: Any) -> BaseNetwork:
    """A base network that was never trained, but has batch-norm statistics of its own; `centred`: a mean direction."""
    config = tiny_config(**changes)
    network, classifier = build(config, classes, (size, size))
    unsettle(network)
    description = BaseDescription(
        config=config,
        class_names=tuple(f"colour {number}" for number in range(classes)),
        normalisation=Normalisation((0.4, 0.5, 0.6), (0.2, 0.25, 0.3)),
        image_size=(size, size),
        resizing="none",
        data_name="toy",
        data_fingerprint="0123",
        held_out=(1, 5),
        code_version="0",
        training=TrainingFacts(
            step=6,
            steps=6,
            seconds=1.5,
            device="cpu",
            validation=(Validation(6, "prototypes (gap/dense)", 3, 5, 1 / 3, 0.02, 5),),
        ),
    )
    if centred:
        network.blocks[-1].norm3.bias.data += 2  # so that most of phi is positive
    mean = torch.rand(network.dim, generator=seeded(7)) / network.dim**0.5 if centred else None
    return BaseNetwork.from_training(network, classifier, description, mean_direction=mean)


def write_trained_base(path: Path, **changes: Any) -> Path:
    """A file of a base network that has learnt, in a second, to tell colours apart; images have 32 pixels."""
    config = tiny_config(iterations=20, batch_size=12, learning_rate=0.05, **changes)
    pretrain(config, coloured(5, 8, 32), None, path, device=torch.device("cpu"))
    return path


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Whether two state dicts are equal bit by bit."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
