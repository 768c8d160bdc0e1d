"""A fitted classifier as one torch module for export, from uint8 images to probabilities.

It computes the same as `FewShotClassifier`, with one difference: here the implants are ordinary convolutions with
folded batch norm, whereas training keeps batch norm separate and handles many tasks at once.
"""

import copy
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from implanting.classifier import Learned
from implanting.dense_classification import locations, scaled_cosine
from implanting.errors import ConfigError
from implanting.fewshot import open_set_score
from implanting.head import Head
from implanting.implants import EPSILON, Implant, Implants, activate
from implanting.networks import Embedding, folded, reading_maps, readings


class ExportedClassifier(nn.Module):
    """Computes probabilities, open-set scores and, on request, heat maps: the evidence of each location for each class
    with a head, and its cosine with each class without one."""

    def __init__(self, learned: Learned, heat_map: bool = False) -> None:
        super().__init__()
        if heat_map and learned.classify.query_pooling == "flatten":
            raise ConfigError("a classifier that flattens its maps has no score at a location: export without heat map")
        self.learned, self.heat_map = learned, heat_map
        self.shape = learned.base.map_size(learned.size, learned.size)
        network = folded(cast(nn.Module, learned.base.network), learned.base.preprocessing.image_size)
        self.network = cast(Embedding, copy.deepcopy(network).cpu())
        self.implants = None if learned.implants is None else ImplantConvolutions(learned.implants)
        normalisation = learned.base.preprocessing.normalisation
        mean, std = (torch.tensor(values)[:, None, None] for values in vars(normalisation).values())
        self.scale, self.shift = nn.Buffer(1 / (255 * std)), nn.Buffer(-mean / std)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Map uint8 images [image size size 3] to probabilities [image way], scores [image], maps [image way _ _]."""
        normalised = images.permute(0, 3, 1, 2).to(torch.float32) * self.scale + self.shift
        if self.learned.head is not None:
            return self.by_head(self.learned.head, normalised)
        features = self.features(normalised)
        cosines = self.learned.cosines(features)
        answers = self.learned.probabilities(cosines), open_set_score(cosines)
        if not self.heat_map:
            return answers
        maps = scaled_cosine(features, self.learned.prototypes, 1.0).mT.unflatten(2, self.shape)
        return *answers, maps

    def by_head(self, head: Head, x: Tensor) -> tuple[Tensor, ...]:
        """Compute the same from normalised images with a head, whose maps show evidence."""
        if not self.heat_map:
            vectors = torch.cat([F.normalize(reading, dim=1) for reading in readings(self.network, x)], dim=1)
            return self.learned.answers_by_readings(head, vectors)
        maps = reading_maps(self.network, x)
        lengths = [part.mean((2, 3), keepdim=True).norm(dim=1, keepdim=True).clamp_min(1e-12) for part in maps]
        shares = torch.cat([part / length for part, length in zip(maps, lengths, strict=True)], dim=1)
        weights, bias = self.learned.calibration.power * head.class_weights, self.learned.calibration.power * head.bias
        evidence = F.conv2d(shares, weights[:, :, None, None], bias)
        return *self.learned.answers_by_readings(head, shares.mean((2, 3))), evidence

    def features(self, x: Tensor) -> Tensor:
        """Compute phi of normalised images, extended by the implants if there are any: [image location dim]."""
        if self.implants is None:
            return locations(self.network(x))
        maps, phi = self.network.activations(x)
        return locations(torch.cat([phi, self.implants(maps)], dim=1))


class ImplantConvolutions(nn.Module):
    """The implants of one task as ordinary convolutions over [a_l, a'_l]."""

    def __init__(self, implants: Implants) -> None:
        super().__init__()
        self.layers = implants.tail.layers
        self.convolutions = nn.ModuleList(_convolution_of(implant) for implant in implants.layers)
        self.weight = 1.0 if implants.weight is None else implants.weight.item()

    def forward(self, base_maps: Sequence[Tensor]) -> Tensor:
        """Compute the implants' part of phi, [image channel row column]."""
        outputs: list[Tensor] = []
        for layer, convolution in zip(self.layers, self.convolutions, strict=True):
            read = [base_maps[layer.reads]] + ([] if layer.below is None else [outputs[layer.below]])
            maps = convolution(torch.cat(read, dim=1))
            if layer.adds is not None:
                maps = maps + outputs[layer.adds]
            maps = activate(maps, layer.activation)
            outputs.append(maps if layer.pool == 1 else F.max_pool2d(maps, layer.pool))
        return self.weight * outputs[-1]


def _convolution_of(implant: Implant) -> nn.Conv2d:
    """Convert the implant of one task to a convolution with folded batch norm."""
    if implant.statistics is None:
        raise ConfigError("the implants were not trained to their end: their batch norm has no statistics; fit again")
    parts = [implant.base_weight] + ([] if implant.implant_weight is None else [implant.implant_weight])
    weight = torch.cat(parts, dim=2)[0].detach()
    variance, mean, gamma, beta = (
        part.detach().flatten() for part in (*implant.statistics, implant.gamma, implant.beta)
    )
    scale = gamma * torch.rsqrt(variance + EPSILON)
    outputs, inputs, kernel, _ = weight.shape
    convolution = nn.Conv2d(inputs, outputs, kernel, implant.stride, kernel // 2, device="meta")
    convolution.weight = nn.Parameter((weight * scale[:, None, None, None]).contiguous(), requires_grad=False)
    convolution.bias = nn.Parameter(beta - mean * scale, requires_grad=False)
    return convolution
