"""Evaluation with implants on random activations of any size, for the measurement of memory."""

import torch

from implanting.bench.noise import fresh_network, random_images
from implanting.config import ImplantConfig, NetworkConfig, TaskConfig
from implanting.dense_classification import PrototypeClassifier
from implanting.fewshot import draw_tasks, evaluate_tasks
from implanting.implants import Activations, Fitting, ImplantMethod, tasks_together
from implanting.networks import Network

CLASSES = 20
NOISE = 64
"""Number of different images; the others repeat them, since drawing billions of numbers would take too long."""


def _random_activations(network: Network, images: int, size: int) -> Activations:
    with torch.no_grad():
        maps, phi = network.activations(torch.randn(NOISE, 3, size, size).contiguous(memory_format=torch.channels_last))
    arrays = []
    for part in (*maps, phi):
        array = torch.empty(images, part[0, 0].numel(), part.shape[1], dtype=torch.half)
        for chunk in array.split(NOISE):
            chunk.copy_(part[: len(chunk)].flatten(2).transpose(1, 2))
        arrays.append(array)
    return Activations(arrays[:-1], arrays[-1], tuple((part.shape[2], part.shape[3]) for part in maps))


def evaluate_some(images: int, size: int, width: int, tasks: int) -> int:
    """Adapt and test 5-way 5-shot tasks of 30 queries per class; returns the bytes of the cache.

    Two epochs are enough: later ones need no more memory than the second.
    """
    network = fresh_network(NetworkConfig(width=width), size)
    activations = _random_activations(network, images, size)
    config = TaskConfig(way=5, shot=5, queries=30, tasks=tasks)
    classify, implants = PrototypeClassifier("gap", "dense", 10.0), ImplantConfig(implant_epochs=2)
    fitting = Fitting(network.tail, classify, implants)
    method = ImplantMethod(activations, fitting, seed=0, tasks_at_once=tasks_together(activations, views=1))
    evaluate_tasks(method, draw_tasks(random_images(images, CLASSES), config), config, CLASSES)
    return sum(array.nbytes for array in (*activations.base_maps, activations.phi))
