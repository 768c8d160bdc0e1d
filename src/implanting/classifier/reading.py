"""A user's images in batches that are decoded while the network runs."""

from collections.abc import Iterable

from implanting.images import Batch, ImageSource, decode_batches
from implanting.runtime import Progress, silent

BATCH = 32
"""Images decoded and classified together: few, so that decoding runs beside the network in small folders too."""


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
