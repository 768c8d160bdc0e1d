"""The rival of stage 2: the code one would write first.

One task at a time, implants as ordinary layers, and the whole network run on the supports in every epoch (without
gradients for the frozen part).
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from implanting.config import ImplantConfig
from implanting.dense_classification import locations, pool, scaled_cosine
from implanting.implants import WEIGHT_DECAY
from implanting.networks import Network


class ImplantModule(nn.Module):
    """The implants of ResNet-12's last block for one task."""

    def __init__(self, channels_in: int, channels: int, new: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, new, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels + new, new, 3, padding=1, bias=False)
        self.conv3 = nn.Conv2d(channels + new, new, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(channels_in, new, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(new) for _ in range(4)])

    def forward(self, z: Tensor, a1: Tensor, a2: Tensor) -> Float[Tensor, "image new rows columns"]:
        i1 = F.silu(self.norms[0](self.conv1(z)))
        i2 = F.silu(self.norms[1](self.conv2(torch.cat([a1, i1], dim=1))))
        i3 = F.silu(self.norms[2](self.conv3(torch.cat([a2, i2], dim=1))) + self.norms[3](self.shortcut(z)))
        return F.max_pool2d(i3, 2)


def implants_of(network: Network, config: ImplantConfig) -> ImplantModule:
    """Fresh implants for one task."""
    channels_in, channels = network.tail.layers[0].channels, network.tail.layers[1].channels
    return ImplantModule(channels_in, channels, config.implant_channels)


def adapt_one_task(
    network: Network,
    images: Float[Tensor, "image 3 height width"],
    labels: Tensor,
    implants: ImplantModule,
    config: ImplantConfig,
) -> None:
    """Train the implants of one task on its support images, in place, with gap for supports and queries."""
    optimizer = torch.optim.AdamW(implants.parameters(), lr=config.implant_learning_rate, weight_decay=WEIGHT_DECAY)
    for _ in range(config.implant_epochs):
        with torch.no_grad():
            base_maps, base_phi = network.activations(images)
        phi = pool(locations(torch.cat([base_phi, implants(*base_maps)], dim=1)), "gap").squeeze(1)
        loss = torch.stack(
            [_left_out_loss(phi, labels, query, config.implant_tau) for query in range(len(labels))]
        ).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _left_out_loss(phi: Float[Tensor, "image dim"], labels: Tensor, query: int, tau: float) -> Float[Tensor, ""]:
    """The loss of one subtask, with prototypes made without the query."""
    others = torch.arange(len(labels)) != query
    vectors = torch.stack([phi[others & (labels == number)].mean(0) for number in range(int(labels.max()) + 1)])
    return F.cross_entropy(scaled_cosine(phi[query : query + 1], vectors, tau), labels[query : query + 1])
