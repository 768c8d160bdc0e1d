"""Supports, some of them, and their views."""

import torch

from toy_tasks import drawn

LABELS = torch.tensor([1, 0, 2, 0, 1, 1])


def test_some_images_of_some_tasks_come_with_all_their_views():
    supports = drawn(LABELS, views=3, tasks=3)
    chosen = supports.select(torch.tensor([2, 0]), torch.tensor([[0, 5], [4, 0]]))
    assert chosen.labels.tolist() == [1, 1]
    assert torch.equal(chosen.phi[0], supports.phi[2, [0, 1, 2, 15, 16, 17]])
    assert torch.equal(chosen.base_maps[1][1], supports.base_maps[1][0, [12, 13, 14, 0, 1, 2]])
    assert torch.equal(chosen.first_views(2).phi[0], supports.phi[2, [0, 1, 15, 16]])


def test_rows_are_views_of_images():
    supports = drawn(LABELS, views=2)
    assert supports.row_labels.tolist() == [1, 1, 0, 0, 2, 2, 0, 0, 1, 1, 1, 1]
    assert supports.groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert supports.first_views(1).groups is None


def test_some_of_the_tasks():
    supports = drawn(LABELS, tasks=3)
    later = supports[1:]
    assert len(later) == 2
    assert torch.equal(later.phi, supports.phi[1:])
    assert all(torch.equal(mine, its[1:]) for mine, its in zip(later.base_maps, supports.base_maps, strict=True))
