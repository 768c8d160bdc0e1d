"""What a network expects of its images: one value that travels with it."""

from dataclasses import dataclass

from implanting.images.normalisation import Normalisation
from implanting.images.resizing import RESIZING


@dataclass(frozen=True)
class Preprocessing:
    """The size of the images, how they are brought to it, and the normalisation of their pixels."""

    image_size: tuple[int, int]
    """Height and width."""
    normalisation: Normalisation
    resizing: str = RESIZING
    """The rule by which images come to that size."""

    @property
    def square_size(self) -> int | None:
        """The side to which other images are brought, or None where the training images were oblong as stored."""
        height, width = self.image_size
        return height if height == width else None
