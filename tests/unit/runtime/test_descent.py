import pytest
import torch

from implanting.runtime import AdamW
from toys import seeded

SHAPES = [(3, 4, 9), (3, 1, 1, 2), (1,)]
LEARNING_RATE, WEIGHT_DECAY = 3e-2, 0.1


@pytest.mark.usefixtures("in_float64")
def test_thirty_steps_are_those_of_pytorch():
    start = [torch.randn(shape, generator=seeded(0)) for shape in SHAPES]
    ours, theirs = ([weight.clone().requires_grad_() for weight in start] for _ in range(2))
    optimizer = AdamW(ours, LEARNING_RATE, WEIGHT_DECAY)
    twin = torch.optim.AdamW(theirs, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, foreach=False)
    for step in range(30):
        gradients = [10.0**number * torch.randn(shape, generator=seeded(step)) for number, shape in enumerate(SHAPES)]
        optimizer.step(gradients)
        for weight, gradient in zip(theirs, gradients, strict=True):
            weight.grad = gradient
        twin.step()
    for one, other, before in zip(ours, theirs, start, strict=True):
        torch.testing.assert_close(one, other)
        assert (one - before).abs().mean() > 0.1  # they have moved


def test_without_a_gradient_weights_decay_alone():
    (weight,) = weights = [torch.tensor([2.0, -4.0])]
    AdamW(weights, LEARNING_RATE, WEIGHT_DECAY).step([torch.zeros(2)])
    torch.testing.assert_close(weight, torch.tensor([2.0, -4.0]) * (1 - LEARNING_RATE * WEIGHT_DECAY))
