"""A teacher's answers for the base images: the probabilities of a finished base network, learned with the labels.

A network that learns from another one's probabilities, and not from the labels alone, learns which classes resemble
each other, and its features carry further to novel classes (self-distillation). The teacher answers once before
training, for each image as it is stored and, if images are mirrored in training, for its mirror image; training then
costs as much as without a teacher. Several processes share the images.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from implanting.base import BaseNetwork
from implanting.config import Precision
from implanting.datasets import ImageSet
from implanting.dense_classification import locations, pool, probabilities, scaled_cosine
from implanting.errors import ConfigError
from implanting.images import views_of
from implanting.runtime import Progress, group, silent, total

BATCH = 512
"""Images that the teacher answers between two reports of progress."""

AT_ONCE = 16
"""Images that the teacher answers at once in bf16; maps of more do not stay in the processor's cache."""


def soft_labels(
    teacher: BaseNetwork,
    image_set: ImageSet,
    progress: Progress = silent,
    precision: Precision = "single",
    *,
    mirrored: bool = True,
) -> Float[Tensor, "image base_class"]:
    """The teacher's probabilities of the base classes for each image, averaged over its locations and views."""
    weights = teacher.class_weights
    if weights is None or teacher.class_names != image_set.class_names:
        raise ConfigError(f"`teacher`: {teacher.name} was not trained on the classes of {image_set.name}")

    views = 1 + mirrored

    def answers(images: UInt8[Tensor, "image height width 3"]) -> Float[Tensor, "image base_class"]:
        phi = pool(_phi(teacher, views_of(images, views).flatten(0, 1), precision), teacher.pooling)
        return probabilities(scaled_cosine(phi, weights, teacher.tau)).unflatten(0, (views, -1)).mean(0).cpu()

    number, processes = group()
    mine = torch.arange(len(image_set)).tensor_split(processes)[number].split(BATCH)
    soft = torch.zeros(len(image_set), len(weights))
    for indices in progress(mine, "asking the teacher", len(mine)):
        soft[indices] = answers(image_set.images[indices])
    return total(soft)


@torch.inference_mode()
def _phi(
    teacher: BaseNetwork, images: UInt8[Tensor, "image height width 3"], precision: Precision
) -> Float[Tensor, "image location dim"]:
    if precision != "bf16":
        return teacher.embed(images)
    normalisation = teacher.preprocessing.normalisation
    # Autocast holds for this thread only, so not for those of `embed`.
    with torch.autocast(teacher.device.type, torch.bfloat16):
        maps = [teacher.network(normalisation(few.to(teacher.device))) for few in images.split(AT_ONCE)]
    return locations(torch.cat(maps)).float()


def targets(
    labels: Int[Tensor, " image"], soft: Float[Tensor, "image base_class"], teacher_share: float
) -> Float[Tensor, "image base_class"]:
    """Mix labels with a teacher's answers: the probabilities that a network is trained to give."""
    return torch.lerp(F.one_hot(labels, soft.shape[1]).float(), soft, teacher_share)
