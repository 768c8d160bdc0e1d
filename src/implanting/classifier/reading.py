"""A user's images: at which size they are read, and in batches that are decoded while the network runs."""

from collections.abc import Iterable

from implanting.base import BaseNetwork
from implanting.images import Batch, ImageSource, decode_batches, stored_size
from implanting.runtime import Progress, silent

BATCH = 32
"""Images decoded and classified together: few, so that decoding runs beside the network in small folders too."""


def suited_size(base: BaseNetwork, sources: list[ImageSource]) -> int:
    """The side in pixels to bring images like these to: the trained one, or that for photos where most are so large."""
    trained, for_photos = min(base.preprocessing.image_size), base.advice.photo_side
    if for_photos is None:
        return trained
    sides = sorted(min(stored_size(source)) for source in sources)
    return for_photos if sides[len(sides) // 2] >= for_photos else trained


def decoded(
    sources: list[ImageSource],
    size: int,
    progress: Progress = silent,
    doing: str = "reading",
    skip_bad: bool = False,
) -> Iterable[Batch]:
    """All images in batches, decoded while the network runs."""
    batches = decode_batches(sources, size, BATCH, skip_bad=skip_bad)
    return progress(batches, doing, -(-len(sources) // BATCH))
