"""phi, the embedding: what is asked of a network, whichever it is and whoever wrote it.

ResNet-12, C128F, EfficientNet-Lite0 and a user's own module all offer this. Whatever computes features, describes
implants or writes files knows a network by it alone.
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
        """Channels of phi."""

    @property
    def tail(self) -> Tail | None:
        """The layers beside which implants can stand; None where they are not described."""

    @property
    def numbers_per_pixel(self) -> float:
        """Numbers of the largest map on the way, for each pixel of an image: how much memory a batch takes."""

    @property
    def identity_text(self) -> str:
        """Besides its weights, what decides what it computes: a part of its fingerprint."""

    @property
    def thread_safe(self) -> bool:
        """Whether several threads may call it at once."""

    def map_size(self, height: int, width: int) -> tuple[int, int]:
        """The locations (rows, columns) that an image of this size gives, or `ImageTooSmall`."""

    def __call__(self, x: Float[Tensor, "image 3 height width"], /) -> Float[Tensor, "image dim rows columns"]:
        """phi of normalised images."""

    def activations(
        self, x: Float[Tensor, "image 3 height width"], /
    ) -> tuple[list[Float[Tensor, "image _ _ _"]], Float[Tensor, "image dim rows columns"]]:
        """The base maps that the tail's layers read, and phi."""

    # What every torch module has, as far as it is used of a network that is known by this protocol alone.

    def parameters(self) -> Iterator[nn.Parameter]:
        """Its weights."""

    def state_dict(self) -> dict[str, Any]:
        """Its weights and statistics by name."""

    def eval(self) -> "Embedding":
        """In evaluation mode, in place."""

    def requires_grad_(self, requires_grad: bool = ..., /) -> "Embedding":
        """With or without gradients, in place."""

    def to(self, device: str | torch.device, /) -> "Embedding":
        """Moved to a device, in place."""
