"""Trained networks side by side as one base: an ensemble whose members share every step but the convolutions.

The features of the members are concatenated, each member's times a factor that makes their mean lengths equal: the
cosine of two images is then about the mean of the members' cosines. Without these factors half of the gain was lost
(`docs/lab-log.md`). The mean length of all is `LENGTH`: prototypes do not depend on it, but much shorter features would
be outweighed by those of implants.
"""

import copy
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from implanting.base import BaseDescription, BaseNetwork, TrainingFacts, Validation, build
from implanting.config import PretrainConfig
from implanting.datasets import ImageSet
from implanting.dense_classification import CosineClassifier, pool
from implanting.errors import ConfigError
from implanting.networks import Network
from implanting.pretraining.validation import few_shot_test, why_no_validation

MEASURED = 500
"""The number of images, at most, on which the lengths of features are measured."""

LENGTH = 14.0
"""Mean length of the joined features: about that of the networks for which the settings of implants were chosen."""

PER_CLASS = 100
"""The number of images of each base class, at most, of which the mean direction is computed."""

AT_ONCE = 256
"""Images whose maps are in memory at once for that."""

SHORTEST = 1e-6
"""Smaller mean lengths are raised to this value."""


def join(bases: Sequence[BaseNetwork], validation: ImageSet) -> BaseNetwork:
    """Put base networks of one architecture, trained on the same images, side by side.

    The first one decides how queries are pooled; the scale tau is the mean of theirs. On images of the validation
    classes the lengths of features are measured, and the joined network is tested and calibrated, as at the end of a
    training. It has no mean direction, even if the members have: `generalised` computes that of the joined network.
    """
    parts = [_parts(base) for base in bases]
    descriptions = [description for description, _ in parts]
    _check_alike(descriptions)
    first = descriptions[0]
    members = sum(description.config.architecture.members for description in descriptions)
    architecture = dataclasses.replace(first.config.architecture, members=members)
    config = dataclasses.replace(first.config, architecture=architecture)
    network, classifier = build(config, len(first.class_names), first.image_size)
    states = [base.network.state_dict() for base in bases]
    network.load_state_dict(_concatenated(states) | {"balance": _balance(bases, validation)})
    if classifier is not None:
        classifier.load_state_dict(_joined_classifier([classifier for _, classifier in parts]))
    joined = dataclasses.replace(first, config=config, training=_summed([each.training for each in descriptions]))
    if classifier is not None:
        joined = _tested(joined, network, classifier.tau.item(), validation)
    return BaseNetwork.from_training(network, classifier, joined)


def generalised(base: BaseNetwork, base_images: ImageSet) -> BaseNetwork:
    """The same network with the mean direction of base images pooled by gem, so that gem-centred can pool with it."""
    description, classifier = _parts(base)
    if base.class_names != base_images.class_names:
        raise ConfigError(f"{base.name} was not trained on the classes of {base_images.name}: give its own data set")
    chosen = torch.cat([indices[:PER_CLASS] for indices in base_images.indices_by_class()])
    total = torch.zeros(base.network.dim)
    for indices in chosen.split(AT_ONCE):
        total += F.normalize(pool(base.embed(base_images.images[indices]), "gem").squeeze(1), dim=1).sum(0).cpu()
    network = copy.deepcopy(cast(Network, base.network))  # the given base goes on reading the mean alone
    return BaseNetwork.from_training(network, classifier, description, mean_direction=total / len(chosen))


def _parts(base: BaseNetwork) -> tuple[BaseDescription, CosineClassifier]:
    if base.description is None or base.classifier is None or base.method != "cosine" or base.pooling == "flatten":
        raise ConfigError(
            f"{base.name} cannot be joined: only networks that `implanting pretrain` trained with a cosine classifier, "
            "at each location or pooled, can"
        )
    if not base.finished:
        raise ConfigError(f"the training of {base.name} is not finished: finish it with `resume` before joining")
    return base.description, base.classifier


def _check_alike(descriptions: Sequence[BaseDescription]) -> None:
    if len(descriptions) < 2:
        raise ConfigError("one network alone cannot be joined: give two or more, or one with `gem`")
    compared: dict[str, Callable[[BaseDescription], object]] = {
        "architecture": lambda one: dataclasses.replace(one.config.architecture, members=1, wide=False),
        "size of images": lambda one: one.image_size,
        "set of training images": lambda one: one.data_fingerprint,
        "set of held-out images": lambda one: one.held_out,
    }
    first = descriptions[0]
    for number, other in enumerate(descriptions[1:], start=2):
        for what, fact in compared.items():
            if fact(first) != fact(other):
                raise ConfigError(
                    f"network {number} ({other.name}) has another {what} than the first ({first.name}); they must agree"
                )
        if first.config.architecture.wide or other.config.architecture.wide:
            raise ConfigError("networks with the channels of `wide` cannot be joined: give networks without it")


def _concatenated(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The weights of grouped convolutions: each member's are the next output channels; counters are the first's."""
    return {
        name: torch.cat([state[name] for state in states]) if value.ndim else value
        for name, value in states[0].items()
        if name != "balance"  # which single networks do not have
    }


def _balance(bases: Sequence[BaseNetwork], validation: ImageSet) -> Float[Tensor, "channel 1 1"]:
    """Factors of all channels that give the pooled features of every network the same mean length on some images."""
    some = validation.images[:: -(-len(validation) // MEASURED)]
    lengths = torch.stack([base.embed(some).mean(1).norm(dim=1).mean() for base in bases]).clamp_min(SHORTEST)
    own = [cast(Network, base.network).balance for base in bases]
    ones = [torch.ones(base.network.dim, 1, 1) if each is None else each for base, each in zip(bases, own, strict=True)]
    share = LENGTH / math.sqrt(len(bases))
    return torch.cat([each * share / length for each, length in zip(ones, lengths, strict=True)])


def _joined_classifier(classifiers: Sequence[CosineClassifier]) -> dict[str, Tensor]:
    """Join class weights, those of each member at unit length, so that none outweighs another by their length."""
    weights = [F.normalize(classifier.class_weights, dim=1) for classifier in classifiers]
    tau = torch.stack([classifier.tau for classifier in classifiers]).mean()
    return {"class_weights": torch.cat(weights, dim=1), "tau": tau}


def _summed(facts: Sequence[TrainingFacts]) -> TrainingFacts:
    """The summed cost of all members; loss, accuracy and validation are left out, as they are of single networks."""
    seconds = sum(fact.seconds for fact in facts)
    return dataclasses.replace(
        facts[0], seconds=seconds, loss=None, accuracy=None, tau=None, validation=(), calibration=None
    )


def _tested(description: BaseDescription, network: Network, tau: float, validation: ImageSet) -> BaseDescription:
    if reason := why_no_validation(description.config, validation):
        raise ConfigError(f"the joined network cannot be tested: {reason}")
    tasks = description.config.validation_tasks or PretrainConfig.validation_tasks
    config = dataclasses.replace(description.config, validation_tasks=tasks)
    test, training = few_shot_test(config, validation, description.normalisation), description.training
    result = Validation(training.step, **test(network, tau).row())
    calibration = test.calibration(network, tau).document()
    return dataclasses.replace(
        description, training=dataclasses.replace(training, validation=(result,), calibration=calibration)
    )
