from itertools import product

import torch

from toy_methods import NOVEL_TASKS, implant_method


def test_supports_come_in_all_their_views():
    method = implant_method(margin=0.0, views=2)
    supports = method.supports(NOVEL_TASKS)
    assert supports.labels.tolist() == [0, 0, 1, 1, 2, 2]
    for task, way, shot, view in product(range(10), range(3), range(2), range(2)):
        row = NOVEL_TASKS.support[task, way, shot] + 40 * view
        assert torch.equal(supports.phi[task, 4 * way + 2 * shot + view], method.activations.phi[row])
