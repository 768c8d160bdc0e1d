"""SimpleShot: nearest class mean after centring on the base classes and scaling to unit length.

Wang, Chao, Weinberger & van der Maaten, "SimpleShot: Revisiting Nearest-Neighbor Classification for Few-Shot
Learning", 2019, arXiv 1911.04623; the variant CL2N. With m the mean feature of the base images, a feature z becomes

    z' = (z - m) / |z - m|,

and a query goes to the class whose mean of supports z' is nearest in Euclidean distance.

Choice: m is the mean over the images that the base was trained on, at most `IMAGES` of each class.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from implanting.baselines.vectors import Vectors, gathered
from implanting.fewshot import Queries, Tasks, named


@dataclass(frozen=True)
class SimpleShotMethod:
    """The class whose mean is nearest."""

    vectors: Vectors
    base_mean: Float[Tensor, " dim"]
    tasks_at_once: int = 64

    @cached_property
    def centred(self) -> Vectors:
        """Every image's vector, centred and at unit length."""
        return F.normalize(self.vectors - self.base_mean, dim=-1)

    @torch.inference_mode()
    def __call__(self, tasks: Tasks) -> tuple[Queries, Queries]:
        task = gathered(self.centred, tasks)
        return named(tasks, torch.cdist(task.queries, task.class_means()).argmin(-1))

    def __str__(self) -> str:
        return "SimpleShot"
