"""The last block fine-tuned on the leave-one-out cost: against a loop written from the cost."""

import pytest
import torch

from implanting.config import ImplantConfig, InferenceConfig, RivalConfig, TaskConfig
from implanting.dense_classification import locations
from implanting.fewshot import draw_tasks, prototype_method
from implanting.implants import compute_activations, last_block_method
from implanting.runtime import AdamW
from toys import coloured, toy_base

BASE = toy_base(size=32, pooling="gap")
IMAGES = coloured(classes=4, per_class=8, size=32, seed=1)
ACTIVATIONS = compute_activations(BASE, IMAGES)
TASKS = draw_tasks(IMAGES, TaskConfig(way=3, shot=3, queries=4, tasks=3, seed=5))


def method(steps: int, rate: float = 1e-2):
    config = RivalConfig(block_steps=steps, block_learning_rate=rate)
    return last_block_method(BASE, ACTIVATIONS, InferenceConfig(), ImplantConfig(), config)


def test_without_steps_it_is_the_base_by_prototypes():
    _, expected = prototype_method(BASE, ACTIVATIONS.phi, InferenceConfig())(TASKS)
    assert torch.equal(method(0)(TASKS)[1], expected)


def leave_one_out_cost(block, inputs, labels):
    """The mean cost over subtasks, each of which leaves out one support."""
    vectors, losses = locations(block(inputs)).mean(1), []
    for image, label in enumerate(labels.tolist()):
        kept = [[other for other in range(9) if labels[other] == way and other != image] for way in range(3)]
        means = torch.stack([vectors[others].mean(0) for others in kept])
        cosines = torch.nn.functional.cosine_similarity(vectors[image], means)
        losses.append(torch.nn.functional.cross_entropy(10 * cosines, torch.tensor(label)))
    return torch.stack(losses).mean()


def test_steps_are_adamw_on_the_leave_one_out_cost():
    labels, rate = torch.arange(3).repeat_interleave(3), 1e-4
    inputs = method(3).inputs(TASKS.support[0].flatten())
    before = {name: value.clone() for name, value in BASE.network.blocks[-1].state_dict().items()}
    block = toy_base(size=32, pooling="gap").network.blocks[-1].requires_grad_()
    start = leave_one_out_cost(block, inputs, labels).item()
    optimizer = AdamW(list(block.parameters()), rate, 1e-2)
    for _ in range(3):
        optimizer.step(torch.autograd.grad(leave_one_out_cost(block, inputs, labels), list(block.parameters())))
    expected = leave_one_out_cost(block, inputs, labels).item()
    tuned = method(3, rate).fine_tuned(inputs, labels)
    assert leave_one_out_cost(tuned, inputs, labels).item() == pytest.approx(expected, abs=0.02 * (start - expected))
    assert expected < start
    assert all(torch.equal(value, before[name]) for name, value in BASE.network.blocks[-1].state_dict().items())
