"""phi, the embedding: the interface that every network offers.

ResNet-12, C128F, EfficientNet-Lite0 and a user's own module all implement it. Code that computes features, describes
implants or writes files uses nothing else of a network.
"""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from implanting.networks.tail import Tail


@runtime_checkable
class Embedding(Protocol):
    """A torch module that maps normalised images to feature maps."""

    @property
    def dim(self) -> int:
        """Number of channels of phi."""

    @property
    def tail(self) -> Tail | None:
        """The layers that can have implants; None if they are not described."""

    @property
    def numbers_per_pixel(self) -> float:
        """Size of the largest intermediate map, in numbers per pixel of the image: it decides the memory of a batch."""

    @property
    def identity_text(self) -> str:
        """A text on which its results depend in addition to its weights: a part of its fingerprint."""

    @property
    def thread_safe(self) -> bool:
        """Whether several threads may call it at once."""

    def map_size(self, height: int, width: int) -> tuple[int, int]:
        """The locations (rows, columns) of an image of this size; raises `ImageTooSmall` if there are none."""

    def __call__(self, x: Float[Tensor, "image 3 height width"], /) -> Float[Tensor, "image dim rows columns"]:
        """phi of normalised images."""

    def activations(
        self, x: Float[Tensor, "image 3 height width"], /
    ) -> tuple[list[Float[Tensor, "image _ _ _"]], Float[Tensor, "image dim rows columns"]]:
        """The base maps that the tail's layers read, and phi."""

    # The methods of every torch module that are called on a network known only by this protocol.

    def parameters(self) -> Iterator[nn.Parameter]:
        """The weights."""

    def state_dict(self) -> dict[str, Any]:
        """The weights and statistics by name."""

    def eval(self) -> "Embedding":
        """Switch to evaluation mode, in place."""

    def requires_grad_(self, requires_grad: bool = ..., /) -> "Embedding":
        """Switch gradients of the weights on or off, in place."""

    def to(self, device: str | torch.device, /) -> "Embedding":
        """Move to a device, in place."""
