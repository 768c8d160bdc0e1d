"""The rival of stage 1: the usual training loop.

A `DataLoader` with two workers, PIL transforms of one image at a time, NCHW, PyTorch's default SGD. The network, loss,
batch size, number of threads, crops and flips are the same as ours.
"""

import random
from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from implanting.base import build
from implanting.config import PretrainConfig
from implanting.datasets import ImageSet
from implanting.dense_classification import CosineClassifier, classification_loss
from implanting.images import Normalisation
from implanting.pretraining import MOMENTUM


class TransformedImages(Dataset[tuple[Tensor, int]]):
    """Random crop, flip, to tensor, normalise: one PIL image at a time."""

    def __init__(self, image_set: ImageSet, padding: int) -> None:
        self.images = [Image.fromarray(image) for image in image_set.images.numpy()]
        self.labels = image_set.labels.tolist()
        self.padding = padding
        normalisation = Normalisation.of(image_set.images)
        self.mean = torch.tensor(normalisation.mean)[:, None, None]
        self.std = torch.tensor(normalisation.std)[:, None, None]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = ImageOps.expand(self.images[index], self.padding)
        left, top = (random.randint(0, 2 * self.padding) for _ in range(2))  # noqa: S311 (the usual way)
        image = image.crop((left, top, left + self.images[index].width, top + self.images[index].height))
        if random.random() < 0.5:  # noqa: S311 (likewise)
            image = ImageOps.mirror(image)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
        return (pixels - self.mean) / self.std, self.labels[index]


class UsualLoop:
    """Trains for some steps whenever it is called."""

    def __init__(self, config: PretrainConfig, image_set: ImageSet, steps: int) -> None:
        size = (image_set.images.shape[1], image_set.images.shape[2])
        self.network, classifier = build(config, len(image_set.class_names), size)
        self.classifier = cast(CosineClassifier, classifier)  # which stage 1 always has
        self.network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload] # torch's stubs lack it
        parameters = nn.ModuleList([self.network, self.classifier]).parameters()
        self.optimizer = torch.optim.SGD(
            parameters, config.learning_rate, momentum=MOMENTUM, nesterov=True, weight_decay=config.weight_decay
        )
        dataset = TransformedImages(image_set, config.augment.crop_padding)
        self.loader = DataLoader(
            dataset, config.batch_size, shuffle=True, num_workers=2, drop_last=True, persistent_workers=True
        )
        self.steps = steps
        self.batches = self.endless()

    def endless(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of one epoch after another, without end."""
        while True:
            yield from self.loader

    def __call__(self) -> None:
        for _ in range(self.steps):
            images, labels = next(self.batches)
            loss = classification_loss(self.classifier(self.network(images)), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
