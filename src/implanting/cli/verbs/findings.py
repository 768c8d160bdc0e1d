"""What `fit` and `check` say about examples, in lines."""

import numpy as np

from implanting.advice import find_copies, thumbnails_of
from implanting.console import show_progress
from implanting.images import LabelledImages

NAMED = 5
"""Groups of copies that a line names; more are counted."""


def remarks_on_copies(found: LabelledImages) -> list[str]:
    """Copies of one image, but for those with equal bytes in two classes, which `found` has in its own remarks."""
    known = [set(group) for group in found.copies]
    _, labels = np.unique(found.labels, return_inverse=True)
    across, within = [], []
    for group in find_copies(thumbnails_of(found.paths, show_progress), labels):
        paths = [found.paths[image] for image in group.images]
        if not any(set(paths) <= equal for equal in known):
            (across if group.across else within).append(" = ".join(map(str, paths)))
    remarks = []
    if across:
        remarks.append(
            f"the same image, saved twice, is in two classes, which no classifier can learn: {_some(across)}"
        )
    if within:
        remarks.append(f"copies within a class count as further examples and teach nothing: {_some(within)}")
    return remarks


def _some(groups: list[str]) -> str:
    further = f"; and {len(groups) - NAMED} more" * (len(groups) > NAMED)
    return "; ".join(groups[:NAMED]) + further
