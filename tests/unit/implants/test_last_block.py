"""The last block fine-tuned on the leave-one-out cost: against a loop written from the cost."""

import copy

import pytest
import torch

from implanting.config import ImplantConfig, InferenceConfig, RivalConfig, TaskConfig
from implanting.dense_classification import locations
from implanting.fewshot import draw_tasks, prototype_method
from implanting.implants import compute_activations, last_block_method
from implanting.pretraining import join
from implanting.runtime import AdamW
from rounding import assert_near
from toys import coloured, toy_base

IMAGES = coloured(classes=4, per_class=8, size=32, seed=1)
TASKS = draw_tasks(IMAGES, TaskConfig(way=3, shot=3, queries=4, tasks=3, seed=5))
POOLED = InferenceConfig(query_pooling="gap")


@pytest.fixture(scope="module")
def activations(base):
    return compute_activations(base, IMAGES)


def method(base, activations, steps: int, rate: float = 1e-3):
    config = RivalConfig(block_steps=steps, block_learning_rate=rate)
    return last_block_method(base, activations, POOLED, ImplantConfig(), config)


def test_without_steps_it_is_the_base_by_prototypes(base, activations):
    truth, expected = prototype_method(base, activations.phi, POOLED)(TASKS)
    assert torch.equal(method(base, activations, 0)(TASKS)[1], expected)
    assert (truth == expected).float().mean() > 0.5


def test_blocks_of_joined_networks_have_the_factors_of_the_whole():
    members = [toy_base(seed=seed) for seed in (1, 2)]
    both, images = join(members, coloured(classes=5, per_class=12, prefix="shade")), coloured(classes=4, per_class=8)
    tuning = method(both, compute_activations(both, images), 0)
    inputs = tuning.inputs(torch.arange(6))
    with torch.no_grad():
        assert_near(tuning.phi(tuning.block, inputs), both.embed(images.images[:6]))


def leave_one_out_cost(block, inputs, labels):
    """The mean cost over subtasks, each of which leaves out one support."""
    vectors, losses = locations(block(inputs)).mean(1), []
    for image, label in enumerate(labels.tolist()):
        kept = [[other for other in range(9) if labels[other] == way and other != image] for way in range(3)]
        means = torch.stack([vectors[others].mean(0) for others in kept])
        cosines = torch.nn.functional.cosine_similarity(vectors[image], means)
        losses.append(torch.nn.functional.cross_entropy(10 * cosines, torch.tensor(label)))
    return torch.stack(losses).mean()


def test_steps_are_adamw_on_the_leave_one_out_cost(base, activations):
    labels = torch.arange(3).repeat_interleave(3)
    tuning = method(base, activations, 3)
    inputs = tuning.inputs(TASKS.support[0].flatten())
    before = {name: value.clone() for name, value in base.network.blocks[-1].state_dict().items()}
    block = copy.deepcopy(base.network.blocks[-1]).requires_grad_()
    start = leave_one_out_cost(block, inputs, labels).item()
    optimizer = AdamW(list(block.parameters()), 1e-3, 1e-2)
    for _ in range(3):
        optimizer.step(torch.autograd.grad(leave_one_out_cost(block, inputs, labels), list(block.parameters())))
    expected = leave_one_out_cost(block, inputs, labels).item()
    tuned = leave_one_out_cost(tuning.fine_tuned(inputs, labels), inputs, labels).item()
    assert tuned == pytest.approx(expected, abs=0.05 * (start - expected))
    assert expected < start
    assert all(torch.equal(value, before[name]) for name, value in base.network.blocks[-1].state_dict().items())
