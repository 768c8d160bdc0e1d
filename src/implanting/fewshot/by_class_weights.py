"""Classification by learned class weights: of base classes alone, or together with the novel classes of a task."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.config import InferenceConfig
from implanting.dense_classification import (
    PrototypeClassifier,
    probabilities,
    prototype_classifier,
    prototypes,
    scaled_cosine,
)
from implanting.errors import ConfigError
from implanting.fewshot.method import Queries
from implanting.fewshot.tasks import Tasks


def require_class_weights(base: BaseNetwork) -> Float[Tensor, "way weight_dim"]:
    """Return the class weights, or raise an error if the base has none."""
    if base.class_weights is None:
        raise ConfigError(f"{base.name} has no class weights of a cosine: it can classify novel classes only")
    return base.class_weights


@dataclass(frozen=True)
class BaseClassMethod:
    """Classify images among all base classes by the learned class weights.

    The tasks only select which queries are counted, so every image is classified once, however many tasks contain it.
    """

    phi: Float[Tensor, "image location dim"]
    class_weights: Float[Tensor, "way weight_dim"]
    classify: PrototypeClassifier
    tasks_at_once: int = 64

    @cached_property
    def answers(self) -> Int[Tensor, " image"]:
        """The class of every image."""
        with torch.inference_mode():
            parts = [self.classify.asked(phi) for phi in self.phi.split(1024)]
            scores = [scaled_cosine(part, self.class_weights, self.classify.tau) for part in parts]
            return torch.cat([probabilities(part).argmax(-1) for part in scores]).cpu()

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        given = self.answers[tasks.query]
        return tasks.classes[:, :, None].expand(given.shape), given

    def __str__(self) -> str:
        return f"class weights ({self.classify.query_pooling})"


def base_class_method(
    base: BaseNetwork, phi: Float[Tensor, "image location dim"], pooling: InferenceConfig
) -> BaseClassMethod:
    """Make the method from a base's learned class weights and tau."""
    classify = prototype_classifier(base.pooling, base.tau, pooling)
    return BaseClassMethod(phi, require_class_weights(base), classify)


@dataclass(frozen=True)
class JointMethod:
    """Classify among base and novel classes together, by the class weights and a task's prototypes.

    Each novel task is paired with the base task of the same index, which has as many queries. Novel class c has the
    number (base classes) + c.
    """

    novel_phi: Float[Tensor, "image location dim"]
    base_phi: Float[Tensor, "base_image location dim"]
    base_tasks: Tasks
    class_weights: Float[Tensor, "way weight_dim"]
    classify: PrototypeClassifier
    tasks_at_once: int = 16

    @cached_property
    def support_vectors(self) -> Float[Tensor, "image dim"]:
        """All images of novel classes, pooled as supports."""
        return self.classify.vectors(self.novel_phi)

    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        base_tasks = self.base_tasks[int(tasks.numbers[0]) : int(tasks.numbers[-1]) + 1]
        base_classes = len(self.class_weights)
        with torch.inference_mode():
            supports = tasks.support.to(self.novel_phi.device)
            means = prototypes(self.support_vectors, supports.flatten(), supports.shape[2])
            vectors = means.view(*supports.shape[:2], -1)
            weights = self.class_weights.expand(len(tasks), -1, -1)
            joint = torch.cat([weights, vectors], dim=1)[:, None]
            queries = torch.cat([self.base_phi[base_tasks.query], self.novel_phi[tasks.query]], dim=1)
            scores = scaled_cosine(self.classify.asked(queries.flatten(1, 2)), joint, self.classify.tau)
            answers = probabilities(scores).argmax(-1).cpu()
        names = torch.cat([torch.arange(base_classes).expand(len(tasks), -1), base_classes + tasks.classes], dim=1)
        truth = torch.cat([base_tasks.classes, base_classes + tasks.classes], dim=1)
        shape = (len(tasks), truth.shape[1], tasks.query.shape[2])
        return truth[:, :, None].expand(shape), names.gather(1, answers).view(shape)

    def __str__(self) -> str:
        return f"class weights and prototypes ({self.classify})"


def joint_method(
    base: BaseNetwork,
    novel_phi: Float[Tensor, "image location dim"],
    base_phi: Float[Tensor, "base_image location dim"],
    base_tasks: Tasks,
    pooling: InferenceConfig,
) -> JointMethod:
    """Make the method from a base's learned class weights and tau, with prototypes for novel classes."""
    classify = prototype_classifier(base.pooling, base.tau, pooling)
    return JointMethod(novel_phi, base_phi, base_tasks, require_class_weights(base), classify)
