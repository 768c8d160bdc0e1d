"""The optimiser of stage 1, its learning rate over time, and its state as named tensors."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from implanting.config import PretrainConfig
from implanting.runtime import part, prefixed

MOMENTUM = 0.9
"""Nesterov momentum, as in TADAM and Gidaris & Komodakis."""

STEPS = ((0.0, 1.0), (1 / 3, 0.06), (2 / 3, 0.012), (5 / 6, 0.0024))
"""The schedule of Gidaris & Komodakis: pairs of a share of training and the factor that applies from it on."""


def total_steps(config: PretrainConfig, images: int) -> int:
    """The length of training in steps."""
    if config.iterations is not None:
        return config.iterations
    per_step = config.batch_size if config.method == "cosine" else config.episode.images
    return max(1, round((config.epochs or 0) * images / per_step))


def schedule(config: PretrainConfig, progress: float) -> float:
    """The learning rate at a share `progress` of training, 0 <= progress < 1."""
    if config.schedule == "one-cycle":
        if progress < config.warmup:
            return config.learning_rate * progress / config.warmup
        return config.learning_rate * 0.5 * (1 + math.cos(math.pi * (progress - config.warmup) / (1 - config.warmup)))
    return config.learning_rate * [factor for start, factor in STEPS if progress >= start][-1]


def build_optimizer(config: PretrainConfig, model: nn.Module) -> torch.optim.Optimizer:
    """SGD with Nesterov momentum, or Adam; weights of layers decay, unless a module sets `decayed` to False."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    spared = {
        weight for module in model.modules() if not getattr(module, "decayed", True) for weight in module.parameters()
    }
    decayed = [weight for weight in trained if weight.ndim > 1 and weight not in spared]
    free = [weight for weight in trained if weight.ndim <= 1 or weight in spared]
    groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": free, "weight_decay": 0.0}]
    if config.optimizer == "adam":
        return torch.optim.Adam(groups, lr=config.learning_rate, fused=True)
    return torch.optim.SGD(groups, lr=config.learning_rate, momentum=MOMENTUM, nesterov=True, fused=True)


PART = "optimizer"
"""The part of a file that holds the state of the optimiser."""


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state, a tensor per name: `optimizer.3.momentum_buffer`."""
    state = optimizer.state_dict()["state"]
    named = {f"{weight}.{name}": value for weight, values in state.items() for name, value in values.items()}
    return prefixed(PART, named)


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`, in place; other tensors are left alone."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in part(PART, tensors).items():
        number, name = key.split(".")
        state.setdefault(int(number), {})[name] = _laid_out_like(weights[int(number)], value)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _laid_out_like(weight: Tensor, value: Tensor) -> Tensor:
    """The value in the memory order of its weight: fused optimisers pair their elements without regard to strides."""
    return torch.empty_like(weight, dtype=value.dtype).copy_(value) if value.shape == weight.shape else value
