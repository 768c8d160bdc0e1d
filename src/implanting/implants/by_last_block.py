"""Fine-tuning of the last block on each task's supports: the alternative that implants are compared with.

The cost is that of implants, leave-one-out subtasks of the supports (Eqs. 11 and 12), and the optimiser is the same.
The difference is that all weights of the block are trained, starting from stage 1, instead of new channels.

Choices: batch norm keeps the statistics of stage 1, since those of a few images would shift every feature; its scales
and shifts are trained. Tasks are adapted one after the other: a block is so large that adapting several at once gains
nothing.
"""

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from implanting.base import BaseNetwork
from implanting.config import ImplantConfig, InferenceConfig, RivalConfig
from implanting.dense_classification import (
    PrototypeClassifier,
    locations,
    probabilities,
    prototype_classifier,
    scaled_cosine,
)
from implanting.errors import ConfigError
from implanting.fewshot import Queries, Tasks, named
from implanting.implants.activations import Activations
from implanting.implants.adaptation import (
    WEIGHT_DECAY,
    inner_products,
    leave_one_out_loss,
    leave_one_out_scores,
)
from implanting.networks import Network
from implanting.runtime import AdamW

Inputs = Float[Tensor, "image channel height width"]


@dataclass(frozen=True)
class LastBlockMethod:
    """A copy of the last block per task, then prototypes of its output."""

    activations: Activations
    block: nn.Module
    balance: Float[Tensor, "channel 1 1"] | None
    """The factors of the channels of joined networks."""
    classify: PrototypeClassifier
    adapt: ImplantConfig
    config: RivalConfig
    tasks_at_once: int = 8

    def inputs(self, images: Int[Tensor, " image"]) -> Inputs:
        """The input of the block for some images."""
        maps = self.activations.base_maps[0][images].float()
        return maps.unflatten(1, self.activations.sizes[0]).permute(0, 3, 1, 2)

    def phi(self, block: nn.Module, inputs: Inputs) -> Float[Tensor, "image location dim"]:
        """What a block, fine-tuned or not, makes of its input: phi of the whole network."""
        maps = block(inputs)
        return locations(maps if self.balance is None else maps * self.balance)

    def fine_tuned(self, inputs: Inputs, labels: Int[Tensor, " image"]) -> nn.Module:
        """The block after some steps on the supports."""
        block = copy.deepcopy(self.block).requires_grad_()
        membership = F.one_hot(labels).to(inputs.dtype)
        queried = torch.ones_like(labels, dtype=torch.bool)
        parameters = list(block.parameters())
        optimizer = AdamW(parameters, self.config.block_learning_rate, WEIGHT_DECAY)
        with torch.enable_grad():
            for _ in range(self.config.block_steps):
                products = inner_products(self.phi(block, inputs)[None], membership, self.adapt)
                scores = leave_one_out_scores(products, membership, self.adapt.implant_tau)
                optimizer.step(torch.autograd.grad(leave_one_out_loss(scores, labels, queried), parameters))
        return block

    @torch.no_grad()
    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        answers = [self._answers(support, query) for support, query in zip(tasks.support, tasks.query, strict=True)]
        return named(tasks, torch.stack(answers))

    def _answers(self, support: Int[Tensor, "way shot"], query: Int[Tensor, "way query"]) -> Int[Tensor, " way_query"]:
        labels = torch.arange(len(support)).repeat_interleave(support.shape[1])
        inputs = self.inputs(support.flatten())
        block = self.fine_tuned(inputs, labels)
        means = self.classify.vectors(self.phi(block, inputs)).unflatten(0, support.shape).mean(1)
        queries = self.classify.asked(self.phi(block, self.inputs(query.flatten())))
        return probabilities(scaled_cosine(queries, means, self.classify.tau)).argmax(-1)

    def __str__(self) -> str:
        return f"last block fine-tuned ({self.classify}, {self.config.block_steps} steps)"


def require_last_block(base: BaseNetwork) -> Network:
    """The network whose last block is fine-tuned; raises an error if it has none."""
    if not isinstance(base.network, Network) or base.pooling == "flatten":
        raise ConfigError(
            f"`method` last-block needs a base of `implanting pretrain`, trained with dense, gap or gmp; this is "
            f"{base.name}, trained with {base.pooling}"
        )
    return base.network


def last_block_method(
    base: BaseNetwork, activations: Activations, pooling: InferenceConfig, adapt: ImplantConfig, config: RivalConfig
) -> LastBlockMethod:
    """The last block of a base, tested as implants are."""
    network = require_last_block(base)
    classify = prototype_classifier(base.pooling, adapt.implant_tau, pooling, base.mean_direction)
    return LastBlockMethod(activations, network.blocks[-1], network.balance, classify, adapt, config)
