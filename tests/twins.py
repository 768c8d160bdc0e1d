"""Slow, obvious twins: prototypes of gathered maps; and stage 2 for one task, by convolutions and loops."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from implanting.config import ImplantConfig
from implanting.dense_classification import PrototypeClassifier, pool, probabilities, scaled_cosine
from implanting.implants import WEIGHT_DECAY, Implant, Implants


def naive_probabilities(
    classify: PrototypeClassifier,
    support: Float[Tensor, "task way shot location dim"],
    query: Float[Tensor, "task query location dim"],
) -> Float[Tensor, "task query way"]:
    """The probability of each of a task's classes for each query, from the maps of supports and queries."""
    vectors = pool(support, classify.support_pooling).mean((-3, -2))
    return probabilities(scaled_cosine(pool(query, classify.query_pooling), vectors[:, None], classify.tau))


Statistics = list[tuple[Tensor, Tensor]]
"""Mean and variance of each batch norm, in the order in which they are met."""


def as_images(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """[image location channel] -> [image channel row column]."""
    return maps.transpose(1, 2).unflatten(2, size)


def naive_layer(implant: Implant, task: int, x: Tensor, fixed: Statistics, found: Statistics) -> Tensor:
    """Convolution and batch norm, by the statistics of these images or else by those that were fixed."""
    weights = [implant.base_weight[task]]
    if implant.implant_weight is not None:
        weights.append(implant.implant_weight[task])
    weight = torch.cat(weights, dim=1)
    maps = F.conv2d(x, weight, padding=weight.shape[-1] // 2, stride=implant.stride)
    gamma, beta = implant.gamma[task].flatten(), implant.beta[task].flatten()
    found.append((maps.mean((0, 2, 3)).detach(), maps.var((0, 2, 3), correction=0).detach()))
    if not fixed:
        return F.batch_norm(maps, None, None, gamma, beta, training=True)
    return F.batch_norm(maps, *fixed[len(found) - 1], gamma, beta, training=False)


def naive_implants(
    implants: Implants, task: int, base_maps: list[Tensor], fixed: Statistics | None = None
) -> tuple[Tensor, Statistics]:
    """The implant stream of one task, [image location channel], and the statistics of these images."""
    activations = {"swish": F.silu, "relu": F.relu, "relu6": F.relu6, None: lambda x: x}
    found: Statistics = []
    outputs: list[Tensor] = []
    images = [as_images(maps[task], size) for maps, size in zip(base_maps, implants.sizes, strict=True)]
    for implant, layer in zip(implants.layers, implants.tail.layers, strict=True):
        below = [] if layer.below is None else [outputs[layer.below]]
        maps = naive_layer(implant, task, torch.cat([images[layer.reads], *below], 1), fixed or [], found)
        if layer.adds is not None:
            maps = outputs[layer.adds] + maps
        outputs.append(F.max_pool2d(activations[layer.activation](maps), layer.pool))
    return outputs[-1].flatten(2).transpose(1, 2), found


def naive_scores(
    phi: Tensor, labels: Tensor, config: ImplantConfig, groups: Sequence[int] | None = None
) -> dict[int, Tensor]:
    """Scores [location way] of every support whose class has another one, by prototypes made without it.

    Without it and its group: supports of the same number are views of one image.
    """
    scores = {}
    groups = range(len(labels)) if groups is None else groups
    for query, label in enumerate(labels.tolist()):
        others = [image for image in range(len(labels)) if groups[image] != groups[query]]
        if label not in labels[others]:
            continue
        prototypes = []
        for way in range(int(labels.max()) + 1):
            supports = [pool(phi[image], config.adapt_support_pooling)[0] for image in others if labels[image] == way]
            prototypes.append(torch.stack(supports).mean(0))
        queries = pool(phi[query], config.adapt_query_pooling)
        scores[query] = scaled_cosine(queries, torch.stack(prototypes), config.implant_tau)
    return scores


def naive_loss(phi: Tensor, labels: Tensor, config: ImplantConfig, groups: Sequence[int] | None = None) -> Tensor:
    """The mean of -log p(own class) over left-out supports and locations."""
    terms = []
    for query, scores in naive_scores(phi, labels, config, groups).items():
        for location in scores:
            terms.append(location.exp().sum().log() - location[labels[query]])
    return torch.stack(terms).mean()


def naive_adapt(
    implants: Implants,
    base_maps: list[Tensor],
    phi: Tensor,
    labels: Tensor,
    config: ImplantConfig,
    groups: Sequence[int] | None = None,
) -> Statistics:
    """Train one task's implants, in place, by convolutions, loops and AdamW; gives their batch-norm statistics."""
    parameters = [parameter.requires_grad_() for parameter in implants.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=config.implant_learning_rate, weight_decay=WEIGHT_DECAY, fused=False)
    for _ in range(config.implant_epochs):
        optimizer.zero_grad()
        implant, _ = naive_implants(implants, 0, base_maps)
        naive_loss(torch.cat([phi[0], implant], -1), labels, config, groups).backward()
        optimizer.step()
    with torch.no_grad():
        return naive_implants(implants, 0, base_maps)[1]
