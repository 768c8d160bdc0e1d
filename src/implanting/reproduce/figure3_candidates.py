"""The images from which the examples of Figure 3 are picked, as each network sees them."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.config import InferenceConfig
from implanting.datasets import ImageSet
from implanting.dense_classification import probabilities, prototype_classifier, prototypes, scaled_cosine
from implanting.fewshot import Tasks, require_class_weights
from implanting.runtime import Progress

Margins = Float[Tensor, " candidate"]


@dataclass(frozen=True)
class Candidates:
    """Images to pick examples from; each is classified among the classes of its task."""

    image_set: ImageSet
    images: Int[Tensor, " candidate"]
    classes: Int[Tensor, "task way"]
    task: Int[Tensor, " candidate"]
    truth: Int[Tensor, " candidate"]
    """The column of the true class among those of the task."""

    @classmethod
    def novel(cls, image_set: ImageSet, tasks: Tasks) -> "Candidates":
        """The queries of tasks, each classified among the classes of its task."""
        count, way, queries = tasks.query.shape
        task = torch.arange(count).repeat_interleave(way * queries)
        truth = torch.arange(way).repeat_interleave(queries).repeat(count)
        return cls(image_set, tasks.query.flatten(), tasks.classes, task, truth)

    @classmethod
    def base(cls, image_set: ImageSet) -> "Candidates":
        """All images of base classes, as one task with all base classes."""
        images = torch.arange(len(image_set))
        every_class = torch.arange(len(image_set.class_names))[None]
        return cls(image_set, images, every_class, torch.zeros_like(images), image_set.labels)

    def name(self, candidate: int, column: int) -> str:
        """The name of the class in this column of a candidate's task."""
        return self.image_set.class_names[int(self.classes[self.task[candidate], column])]


@dataclass(frozen=True)
class Seen:
    """The candidates as one network sees them."""

    base: BaseNetwork
    phi: Float[Tensor, "candidate location dim"]
    vectors: Float[Tensor, "task way dim"]
    """The prototypes of each task's classes, or the weights of the base classes."""
    probabilities: Float[Tensor, "candidate way"]

    def margins(self, truth: Int[Tensor, " candidate"]) -> Margins:
        """The probability of the true class minus the largest other one."""
        others = self.probabilities.scatter(1, truth[:, None], -torch.inf)
        return self.probabilities.gather(1, truth[:, None])[:, 0] - others.amax(1)


@torch.inference_mode()
def seen_by(base: BaseNetwork, candidates: Candidates, tasks: Tasks | None, progress: Progress) -> Seen:
    """Each candidate's probabilities among the classes of its task, or among the base classes."""
    classify = prototype_classifier(base.pooling, base.tau, InferenceConfig())
    phi, support = _embed_used(base, candidates, tasks, progress)
    if support is None:
        vectors = require_class_weights(base).cpu()[None]
    else:
        pooled = classify.vectors(support).flatten(0, 2)
        vectors = prototypes(pooled, torch.arange(len(pooled)), support.shape[2]).view(*support.shape[:2], -1)
    parts = [
        probabilities(scaled_cosine(classify.asked(part), vectors[task], base.tau))
        for task, part in enumerate(phi.split(torch.bincount(candidates.task).tolist()))
    ]
    return Seen(base, phi, vectors, torch.cat(parts))


def _embed_used(
    base: BaseNetwork, candidates: Candidates, tasks: Tasks | None, progress: Progress
) -> tuple[Float[Tensor, "candidate location dim"], Float[Tensor, "task way shot location dim"] | None]:
    """phi of the candidates and of the supports; an image that serves in several tasks is embedded once."""
    support = torch.empty(0, dtype=torch.int64) if tasks is None else tasks.support.flatten()
    used, place = torch.cat([support, candidates.images]).unique(return_inverse=True)
    phi = base.embed(candidates.image_set.images[used], progress).cpu()
    supports = None if tasks is None else phi[place[: len(support)]].unflatten(0, tasks.support.shape)
    return phi[place[len(support) :]], supports
