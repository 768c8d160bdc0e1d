"""AdamW (Loshchilov and Hutter 2019) for the implants of many tasks.

`torch.optim.AdamW` computes the same, but using it loads PyTorch's compiler, which takes longer than fitting a
classifier. The step itself is PyTorch's: one pass over the memory of each parameter.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""As in PyTorch."""


class AdamW:
    """Parameters, trained in place, with running means of their gradients and of the squares of these."""

    def __init__(self, parameters: Sequence[Tensor], learning_rate: float, weight_decay: float) -> None:
        self.parameters = list(parameters)
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.means = [torch.zeros_like(parameter) for parameter in parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in parameters]
        self.steps = [torch.zeros((), device=parameter.device) for parameter in parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step against the gradients; the weights decay by themselves, not through the gradient."""
        torch._foreach_add_(self.steps, 1)
        torch._fused_adamw_(
            self.parameters,
            list(gradients),
            self.means,
            self.squares,
            [],  # of the variant "amsgrad"
            self.steps,
            lr=self.learning_rate,
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=self.weight_decay,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )
