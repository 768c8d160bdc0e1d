"""Episodes: tasks of base classes that a network is trained on, as one batch of images."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Episodes:
    """Normalised, augmented images of some episodes; supports of a class come first, then its queries."""

    images: Float[Tensor, "episode way image ..."]
    """Pixels (3, height, width); for a system whose network is frozen, they may be vectors."""
    shot: int
    classes: Int[Tensor, "episode way"]
    """The base classes that play the novel ones."""
    further: Float[Tensor, "further ..."] | None = None
    """Images of base classes, for systems that also learn to classify these."""
    further_labels: Int[Tensor, " further"] | None = None
    """The base class of each."""

    @property
    def way(self) -> int:
        """Classes of an episode."""
        return self.images.shape[1]

    @property
    def queries(self) -> int:
        """Queries of a class."""
        return self.images.shape[2] - self.shot

    def of_base_classes(self) -> tuple[Float[Tensor, "further ..."], Int[Tensor, " further"]]:
        """The further images and their classes."""
        if self.further is None or self.further_labels is None:
            raise ValueError("these episodes have no further images of base classes")
        return self.further, self.further_labels

    def all_images(self) -> Float[Tensor, "all ..."]:
        """Supports and queries of all episodes as one batch, pixels in channels_last memory order."""
        images = self.images.flatten(0, 2)
        return images.contiguous(memory_format=torch.channels_last) if images.ndim == 4 else images

    def split(
        self, vectors: Float[Tensor, "all dim"]
    ) -> tuple[Float[Tensor, "episode way shot dim"], Float[Tensor, "episode way query dim"]]:
        """The vectors of `all_images`, split into those of supports and of queries."""
        apart = vectors.unflatten(0, self.images.shape[:3])
        return apart[:, :, : self.shot], apart[:, :, self.shot :]

    def labels(self) -> Int[Tensor, " query"]:
        """The class of each query within its episode, class by class."""
        return torch.arange(self.way, device=self.images.device).repeat_interleave(self.queries)


def figures_of(scores: Float[Tensor, "episode query way"], labels: Int[Tensor, " query"]) -> Float[Tensor, " 2"]:
    """The mean cross-entropy of queries (Eqs. 4 and 5), and their accuracy."""
    targets = labels.expand(len(scores), -1)
    loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
    return torch.stack([loss, (scores.detach().argmax(-1) == targets).float().mean()])
