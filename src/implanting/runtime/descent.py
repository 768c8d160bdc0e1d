"""AdamW for a few tensors, without the imports of PyTorch's optimisers."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Settings of AdamW, PyTorch's defaults."""


class AdamW:
    """AdamW (Loshchilov and Hutter 2019) in place, with running means of gradients and of their squares.

    `torch.optim.AdamW` computes the same, but using it loads PyTorch's compiler, which takes longer than fitting a
    classifier.
    """

    def __init__(self, parameters: Sequence[Tensor], learning_rate: float, weight_decay: float) -> None:
        self.parameters = list(parameters)
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.means = [torch.zeros_like(parameter) for parameter in parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in parameters]
        self.steps = 0

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take one step; weight decay is applied directly, not through the gradient."""
        self.steps += 1
        mean_share, square_share = (
            1 - beta**self.steps for beta in BETAS
        )  # corrects for running means that started at 0
        for parameter, gradient, mean, square in zip(self.parameters, gradients, self.means, self.squares, strict=True):
            mean.lerp_(gradient, 1 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            deviation = square.sqrt().div_(math.sqrt(square_share)).add_(EPSILON)
            parameter.mul_(1 - self.learning_rate * self.weight_decay)
            parameter.addcdiv_(mean, deviation, value=-self.learning_rate / mean_share)
