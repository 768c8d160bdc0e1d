import pytest
import torch

from implanting.fewshot import room_for
from implanting.implants import Activations, tasks_together


@pytest.mark.parametrize(
    ("width", "side", "views", "tasks"),
    [
        (64, 4, 1, 8),  # 32 px
        (32, 4, 1, 16),
        (4, 4, 1, 64),
        (64, 10, 1, 8),  # 84 px
        (64, 10, 3, 2),
        (32, 4, 2, 8),
        (64, 10, 9, 1),
    ],
)
def test_smaller_tasks_are_adapted_more_at_a_time(width, side, views, tasks):
    maps = [torch.empty(0, side**2, channels * width) for channels in (4, 8, 8)]
    activations = Activations(maps, torch.empty(0, 1, 8 * width), ((side, side),) * 3)
    assert tasks_together(activations, views) == tasks


@pytest.mark.parametrize(
    ("way", "shot", "queries", "tasks"),
    [(5, 5, 30, 64), (5, 10, 30, 64), (5, 10, 31, 62), (60, 5, 5, 21), (1000, 5, 30, 1)],
)
def test_larger_tasks_are_answered_fewer_at_a_time(way, shot, queries, tasks):
    assert room_for(64, way * (shot + queries)) == tasks
