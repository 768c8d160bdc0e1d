"""The episodes of a step: tasks of base classes and, for some systems, further images of base classes.

The episodes of a step are a function of (seed, step), as batches are.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int, UInt8
from torch import Generator, Tensor

from implanting.baselines import co_trains
from implanting.config import PretrainConfig
from implanting.datasets import ImageSet
from implanting.errors import ConfigError
from implanting.pretraining.augment import augment
from implanting.runtime import Stream, generator_of


@dataclass(frozen=True)
class DrawnEpisodes:
    """The indices of the images of some episodes; the supports of a class come first, then its queries."""

    classes: Int[Tensor, "episode way"]
    indices: Int[Tensor, "episode way image"]
    further: Int[Tensor, " further"]
    """Further images of base classes: equally many per episode, or all images of a step of co-training."""

    def images(
        self, image_set: ImageSet, config: PretrainConfig, step: int
    ) -> tuple[UInt8[Tensor, "image height width 3"], UInt8[Tensor, "further height width 3"]]:
        """The augmented images of the episodes, and the further ones."""
        chosen = torch.cat([self.indices.flatten(), self.further])
        images = augment(image_set.images[chosen], config.augment, generator_of(config.seed, Stream.AUGMENTATION, step))
        return images[: self.indices.numel()], images[self.indices.numel() :]


class EpisodeSource:
    """Draws the episodes of a training from its base images."""

    def __init__(self, image_set: ImageSet, config: PretrainConfig) -> None:
        self.image_set = image_set
        self.config = config
        self._check()

    def _check(self) -> None:
        episode, images = self.config.episode, self.image_set
        if episode.train_way > (found := len(images.class_names)):
            raise ConfigError(
                f"`train_way` is {episode.train_way}; {images.name} has {found} base classes: lower `train_way`"
            )
        if self.config.method == "gidaris" and episode.train_way == found:
            raise ConfigError(
                f"`train_way` is {episode.train_way}, all base classes of {images.name}; gidaris needs further "
                "classes besides those of an episode: lower `train_way`"
            )
        needed = episode.train_shot + episode.train_queries
        images.require(needed, f"episodes of {episode.train_shot} shots", "lower `train_shot` or `train_queries`")

    @cached_property
    def by_class(self) -> list[Tensor]:
        """The images of each base class."""
        return self.image_set.indices_by_class()

    def draw(self, step: int, steps: int) -> DrawnEpisodes:
        """The episodes of a step."""
        episode = self.config.episode
        generator = generator_of(self.config.seed, Stream.EPISODES, step)
        if self.config.method == "tadam":
            drawn = float(torch.rand((), generator=generator))
            if co_trains(episode.co_training, step / steps, drawn):
                return self._co_training(generator)
        ways = [torch.randperm(len(self.by_class), generator=generator) for _ in range(episode.episodes)]
        classes = torch.stack([order[: episode.train_way] for order in ways])
        count = episode.train_shot + episode.train_queries
        indices = torch.stack([torch.stack([self._some(int(way), count, generator) for way in row]) for row in classes])
        further = torch.empty(0, dtype=torch.int64)
        if self.config.method == "gidaris":
            further = torch.cat([self._of_others(order[episode.train_way :], generator) for order in ways])
        return DrawnEpisodes(classes, indices, further)

    def _some(self, way: int, count: int, generator: Generator) -> Int[Tensor, " chosen"]:
        images = self.by_class[way]
        return images[torch.randperm(len(images), generator=generator)[:count]]

    def _of_others(self, classes: Int[Tensor, " other"], generator: Generator) -> Int[Tensor, " further"]:
        """As many queries of the other base classes as there are queries of the fictitious novel classes."""
        episode = self.config.episode
        chosen = classes[torch.randint(len(classes), (episode.train_way * episode.train_queries,), generator=generator)]
        return torch.cat([self._some(int(way), 1, generator) for way in chosen])

    def _co_training(self, generator: Generator) -> DrawnEpisodes:
        further = torch.randint(len(self.image_set), (self.config.episode.co_training_batch,), generator=generator)
        empty = torch.empty(0, 0, dtype=torch.int64)
        return DrawnEpisodes(empty, empty[:, :, None], further)
