"""A base network that computes every image once, so that many classifiers can be fitted on the same photos.

A classifier on this base works as usual, starting from pixels; only the pass through the network is skipped if the same
pixels went through it before. Images are identified by a hash of their pixels.
"""

import hashlib
import threading
import time
from collections.abc import Callable

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.config import MEMORY_BUDGET
from implanting.runtime import Progress, silent

Images = UInt8[Tensor, "image height width 3"]
Parts = list[Tensor]
"""The outputs of a network for several images, or for one."""


class RememberingBase(BaseNetwork):
    """The same base network; it also counts the requested images and the time that looking them up takes."""

    def __init__(self, base: BaseNetwork, budget: int = MEMORY_BUDGET) -> None:
        self.__dict__.update(base.__dict__)
        self.asked = 0
        """Number of images requested, known or not."""
        self.computed = 0
        """Number of images that went through the network."""
        self.seconds = 0.0
        """Processor time that the calling threads spent in this class."""
        self._left = budget
        self._known: dict[tuple[str, bytes], Parts] = {}
        self._lock = threading.Lock()

    def embed(self, images: Images, progress: Progress = silent) -> Float[Tensor, "image location dim"]:
        """phi of each image."""
        return self._remembered("embed", images, lambda new: [super(RememberingBase, self).embed(new, progress)])[0]

    def read(self, images: Images, progress: Progress = silent) -> Float[Tensor, "image dim"]:
        """The readings of each image."""
        return self._remembered("read", images, lambda new: [super(RememberingBase, self).read(new, progress)])[0]

    def activations(
        self, images: Images
    ) -> tuple[list[Float[Tensor, "image _ _ _"]], Float[Tensor, "image dim out_rows out_columns"]]:
        """The base maps that the tail's layers read, and phi as a map."""

        def compute(new: Images) -> Parts:
            maps, phi = super(RememberingBase, self).activations(new)
            return [*maps, phi]

        *maps, phi = self._remembered("activations", images, compute)
        return maps, phi

    def _remembered(self, what: str, images: Images, compute: Callable[[Images], Parts]) -> Parts:
        began = time.thread_time()
        keys = [(what, hashlib.blake2b(image.numpy().data, digest_size=16).digest()) for image in images.contiguous()]
        missing = [place for place, key in enumerate(keys) if key not in self._known]
        new = dict(zip(missing, zip(*compute(images[missing]), strict=True), strict=True)) if missing else {}
        found = [new[place] if place in new else self._known[key] for place, key in enumerate(keys)]
        parts = [torch.stack(part) for part in zip(*found, strict=True)]
        with self._lock:
            for place, values in new.items():
                self._keep(keys[place], [value.clone() for value in values])
            self.asked += len(keys)
            self.computed += len(missing)
            self.seconds += time.thread_time() - began
        return parts

    def _keep(self, key: tuple[str, bytes], parts: Parts) -> None:
        self._left -= sum(part.nbytes for part in parts)
        if self._left >= 0:
            self._known[key] = parts
