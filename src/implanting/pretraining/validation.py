"""Tests on validation classes: few-shot accuracy during training, and calibration at the end.

Validation classes never steer training. The calibration that they give is used for tasks that have too few supports
to be calibrated themselves.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from implanting.base import embed
from implanting.baselines import System, system_method
from implanting.config import InferenceConfig, Pooling, PretrainConfig, TaskConfig
from implanting.datasets import ImageSet
from implanting.dense_classification import PrototypeClassifier, probabilities, prototype_classifier
from implanting.fewshot import (
    Calibration,
    Method,
    PrototypeMethod,
    Result,
    Tasks,
    calibrate,
    draw_tasks,
    evaluate_tasks,
    open_set_score,
)
from implanting.images import Normalisation
from implanting.networks import Network

SHOT, QUERIES = 5, 15

IMAGES = 100
"""The largest number of images per validation class that tasks draw from, so that a test takes seconds."""

CALIBRATING_TASKS = 200


@dataclass(frozen=True)
class FewShotTest:
    """Tasks of validation classes, drawn once, on which the current network is tested."""

    images: ImageSet
    tasks: Tasks
    config: TaskConfig
    pooling: Pooling
    normalisation: Normalisation
    known: dict[Network, Tensor] = field(default_factory=dict, compare=False)
    """phi of the images by a network that is not trained, which is computed once."""

    def phi(self, network: Network) -> Float[Tensor, "image location dim"]:
        """phi of the images, with the network in evaluation mode."""
        if network in self.known:
            return self.known[network]
        training = network.training
        network.eval()
        phi = embed(network, self.normalisation, self.images.images)
        network.train(training)
        if not any(weight.requires_grad for weight in network.parameters()):
            self.known[network] = phi
        return phi

    def __call__(self, network: Network, tau: float, system: System | None = None) -> Result:
        """The accuracy of a network by prototypes at a tau, or as the system around it answers."""
        method: Method
        if system is None:
            classify = prototype_classifier(self.pooling, tau, InferenceConfig())
            method = PrototypeMethod(self.phi(network), classify)
        else:
            system.eval()
            pixels, normalisation = self.images.images, self.normalisation
            method = system_method(system, pixels, normalisation, lambda: self.phi(network), self.pooling)
        result = evaluate_tasks(method, self.tasks, self.config, len(self.images.class_names))
        if system is not None:
            system.train()
        return result

    def calibration(self, network: Network, tau: float) -> Calibration:
        """The calibration of prototypes of one image per class."""
        classify = prototype_classifier(self.pooling, tau, InferenceConfig())
        return one_shot_calibration(self.phi(network).cpu(), self.images, classify)


def few_shot_test(config: PretrainConfig, validation: ImageSet, normalisation: Normalisation) -> FewShotTest:
    """Draw 5-way 5-shot tasks, or smaller ones if there are fewer than five classes or twenty images per class.

    MAML has a linear classifier for `train_way` classes, so its tasks have as many.
    """
    images = validation.subset(torch.cat([indices[:IMAGES] for indices in validation.indices_by_class()]))
    tasks = TaskConfig(
        way=config.episode.train_way if config.method == "maml" else min(5, len(images.class_names)),
        shot=SHOT,
        queries=min(QUERIES, images.smallest_class - SHOT),
        tasks=config.validation_tasks,
    )
    return FewShotTest(images, draw_tasks(images, tasks), tasks, config.pooling, normalisation)


def why_no_validation(config: PretrainConfig, validation: ImageSet) -> str | None:
    """The reason why these classes cannot be used for few-shot validation, if there is one."""
    classes, needed = len(validation.class_names), config.episode.train_way
    if classes < 2:
        return f"{validation.name} has one class; tasks need two or more"
    if config.method == "maml" and classes < needed:
        return f"{validation.name} has {classes} classes; maml trained with `train_way` {needed} needs {needed}"
    if (smallest := validation.smallest_class) <= SHOT:
        return f"a class of {validation.name} has {smallest} images; {SHOT}-shot tasks need more"
    return None


def one_shot_calibration(
    phi: Float[Tensor, "image location dim"], image_set: ImageSet, classify: PrototypeClassifier
) -> Calibration:
    """Calibrate on all queries of many tasks with one support per class."""
    way, queries = min(5, len(image_set.class_names)), min(QUERIES, image_set.smallest_class - 1)
    tasks = draw_tasks(image_set, TaskConfig(way, 1, queries, CALIBRATING_TASKS))
    cosines, truth = PrototypeMethod(phi, classify).cosines(tasks)
    return calibrate(probabilities(classify.tau * cosines), truth, open_set_score(cosines), told_by="base")
