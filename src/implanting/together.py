"""How many tasks are answered together: as many as there is room for."""

from implanting.activations import Activations

FEWEST, MOST = 8, 64
"""Tasks, or folds of tasks, that are adapted together where maps are large, and where they are small."""

TOGETHER = FEWEST * 16 * 1280
"""Numbers read of an image times tasks: the fewest tasks at width 64 and 32 px, more where tasks are small."""


def tasks_together(activations: Activations, views: int) -> int:
    """How many tasks to adapt together, when each support is seen in some views."""
    numbers = views * sum(maps.shape[1] * maps.shape[2] for maps in activations.base_maps)
    return max(1, FEWEST // views, min(MOST, TOGETHER // numbers))
