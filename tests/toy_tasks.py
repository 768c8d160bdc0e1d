"""Supports of toy tasks in several views, and how they are fitted."""

import torch
from torch import Tensor

from implanting.config import ImplantConfig
from implanting.dense_classification import PrototypeClassifier
from implanting.implants import Fitting, Supports
from implanting.networks.resnet12 import resnet12
from toys import seeded

TAIL, SIZES = resnet12(1).tail, ((4, 4),) * 3
CONFIG = ImplantConfig(
    implant_channels=3, implant_epochs=5, implant_learning_rate=1e-2, adapt_views=2, implant_share=1.0
)


def drawn(labels: Tensor, views: int = 2, tasks: int = 2, seed: int = 0) -> Supports:
    """Images about the centre of their class, and views about their image."""
    generator = seeded(seed)

    def about_images(locations: int, channels: int) -> Tensor:
        centres = torch.randn(tasks, int(labels.max()) + 1, 1, channels, generator=generator)
        images = centres[:, labels] + torch.randn(tasks, len(labels), locations, channels, generator=generator)
        moved = torch.randn(tasks, len(labels), views, locations, channels, generator=generator)
        return (images[:, :, None] + 0.5 * moved).flatten(1, 2)

    return Supports([about_images(16, channels) for channels in (4, 8, 8)], about_images(4, 8), labels, SIZES, views)


def fitting(
    config: ImplantConfig = CONFIG, support_views: int = 1, support: str = "gap", query: str = "dense"
) -> Fitting:
    return Fitting(TAIL, PrototypeClassifier(support, query, 17.0), config, support_views)


def generators(*tasks: int) -> list[torch.Generator]:
    return [seeded(100 + task) for task in tasks]
