"""Toy tasks of base and novel classes, features of their images, and an implant method."""

from dataclasses import replace

import torch
from torch import Tensor

from implanting.config import TaskConfig
from implanting.dense_classification import pool, probabilities, scaled_cosine
from implanting.fewshot import draw_tasks
from implanting.implants import Activations, ImplantMethod
from toy_tasks import CONFIG as CONFIG_OF_IMPLANTS
from toy_tasks import SIZES, fitting
from toys import labelled, seeded

BASE = labelled([number % 6 for number in range(60)])
NOVEL = labelled([number % 4 for number in range(40)])
CONFIG = TaskConfig(way=3, shot=2, queries=4, tasks=10)
NOVEL_TASKS, BASE_TASKS = draw_tasks(NOVEL, CONFIG), draw_tasks(BASE, CONFIG)


def features(labels: Tensor, classes: int, seed: int) -> Tensor:
    centres = torch.randn(classes, 1, 5, generator=seeded(seed))
    return centres[labels] + 0.7 * torch.randn(len(labels), 4, 5, generator=seeded(seed + 1))


BASE_PHI, NOVEL_PHI = features(BASE.labels, 6, seed=1), features(NOVEL.labels, 4, seed=5)
WEIGHTS = torch.stack([BASE_PHI[BASE.labels == number].mean((0, 1)) for number in range(6)])


def naive_class(phi: Tensor, vectors: Tensor, pooling: str) -> int:
    scores = scaled_cosine(pool(phi[None], pooling), vectors, 10.0)
    return int(probabilities(scores)[0].argmax())


def implant_method(margin: float, views: int = 1) -> ImplantMethod:
    generator = seeded(11)
    centres = [torch.randn(4, 1, channels, generator=generator) for channels in (4, 8, 8, 8)]
    *base_maps, phi = (
        centre[NOVEL.labels.repeat(views)]
        + 2 * torch.randn(40 * views, locations, centre.shape[2], generator=generator)
        for centre, locations in zip(centres, (16, 16, 16, 4), strict=True)
    )
    config = replace(CONFIG_OF_IMPLANTS, adapt_views=views, decision_margin=margin)
    return ImplantMethod(Activations(base_maps, phi, SIZES), fitting(config, views), seed=0)
