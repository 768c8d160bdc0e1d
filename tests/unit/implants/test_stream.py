import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from implanting.implants import Implants
from implanting.implants.stream import new_implants
from implanting.networks import EfficientNetLite, ImplantedLayer, Sizes, Tail
from implanting.networks.resnet12 import c128f, resnet12
from implanting.networks.tail import strided
from toys import seeded
from twins import naive_implants

SIZE = 5, 4
"""Odd and not square: pooling must leave out the last row."""

RESIDUAL = resnet12(2).tail


def without_shortcut(tail: Tail) -> Tail:
    """The tail of a residual block, but its last convolution is activated and pooled."""
    *_, last, shortcut = tail.layers
    return Tail((*tail.layers[:2], replace(last, activation=shortcut.activation, pool=shortcut.pool)))


def inverted_blocks(*blocks: tuple[int, int, int, bool], head: int) -> Tail:
    """Blocks (channels, kernel, stride, residual) that expand by six, filter and project, and a 1x1 head of theirs.

    As a user may describe a network such as MobileNet, beside whose last blocks implants shall stand.
    """
    layers: list[ImplantedLayer] = []
    for channels, kernel, stride, residual in blocks:
        first = len(layers)
        below = first - 1 if first else None
        layers.append(ImplantedLayer(first, channels, 1, below=below, activation="relu6"))
        layers.append(ImplantedLayer(first + 1, 6 * channels, kernel, stride, first, activation="relu6"))
        layers.append(ImplantedLayer(first + 2, 6 * channels, 1, below=first + 1, adds=below if residual else None))
    return Tail((*layers, ImplantedLayer(len(layers), head, 1, below=len(layers) - 1, activation="relu6")))


LAST_BLOCK = inverted_blocks((192, 3, 1, False), head=320)
STRIDED = inverted_blocks((112, 5, 2, False), (192, 5, 1, True), (192, 5, 1, True), (192, 3, 1, False), head=320)

TAILS = {
    "resnet12": RESIDUAL,
    "no shortcut": without_shortcut(RESIDUAL),
    "no last pool": resnet12(2, last_pool=False).tail,
    "c128f": c128f(4).tail,
    "lite0's head": EfficientNetLite().tail,
    "inverted block": LAST_BLOCK,
    "inverted blocks with a stride": STRIDED,
}


def maps_for(tail: Tail, tasks: int, images: int, seed: int = 0) -> list[Tensor]:
    """Base activations that no network made."""
    channels = {layer.reads: layer.channels for layer in tail.layers}
    generator = seeded(seed)
    return [
        torch.randn(tasks, images, math.prod(size), channels[number], generator=generator) + 0.5
        for number, size in enumerate(sizes(tail))
    ]


def sizes(tail: Tail) -> Sizes:
    """SIZE for the first map, and for the others what the strides leave of it."""
    found: dict[int, tuple[int, int]] = {}
    size = SIZE
    for layer in tail.layers:
        size = found.setdefault(layer.reads, size)
        size = strided(size, layer.stride)
    return tuple(found[number] for number in sorted(found))


def unsettled(tail: Tail, tasks: int = 3, channels: int = 6) -> Implants:
    """Implants whose batch norms are not those of the beginning."""
    implants = new_implants(tail, sizes(tail), channels, [seeded(10 + task) for task in range(tasks)])
    generator = seeded(1)
    for implant in implants.layers:
        implant.gamma = torch.rand(implant.gamma.shape, generator=generator) + 0.5
        implant.beta = torch.rand(implant.beta.shape, generator=generator) - 0.5
    return implants


@pytest.fixture(params=TAILS)
def tail(request):
    return TAILS[request.param]


@pytest.mark.usefixtures("in_float64")
def test_each_task_equals_convolutions_of_concatenated_maps(tail):
    implants, maps = unsettled(tail), maps_for(tail, 3, 7)
    together = implants(maps)
    assert together.shape[0::3] == (3, 6)
    for task in range(3):
        torch.testing.assert_close(together[task], naive_implants(implants, task, maps)[0])


@pytest.mark.usefixtures("in_float64")
def test_fixed_statistics_of_supports_serve_queries(tail):
    implants, supports, queries = unsettled(tail), maps_for(tail, 3, 7), maps_for(tail, 3, 4, seed=9)
    implants.fix_statistics(supports)
    answers = implants(queries)
    for task in range(3):
        _, statistics = naive_implants(implants, task, supports)
        expected, _ = naive_implants(implants, task, queries, statistics)
        torch.testing.assert_close(answers[task], expected)
        own_statistics, _ = naive_implants(implants, task, queries)
        assert (answers[task] - own_statistics).abs().max() > 0.1


@pytest.mark.usefixtures("in_float64")
def test_a_query_does_not_depend_on_the_others(tail):
    implants, queries = unsettled(tail), maps_for(tail, 3, 4, seed=9)
    implants.fix_statistics(maps_for(tail, 3, 7))
    others = [torch.cat([maps[:, :1], 3 * maps[:, 1:] + 1], 1) for maps in queries]
    torch.testing.assert_close(implants(others)[:, 0], implants(queries)[:, 0])
    torch.testing.assert_close(implants([maps[:, :1] for maps in queries])[:, 0], implants(queries)[:, 0])


def test_without_fixing_the_images_share_their_statistics(tail):
    implants, queries = unsettled(tail), maps_for(tail, 3, 4)
    others = [torch.cat([maps[:, :1], 3 * maps[:, 1:] + 1], 1) for maps in queries]
    assert (implants(others)[:, 0] - implants(queries)[:, 0]).abs().max() > 0.1


def test_supports_give_the_same_before_and_after_fixing(tail):
    implants, supports = unsettled(tail), maps_for(tail, 3, 7)
    training, fixing = implants(supports), implants.fix_statistics(supports)
    torch.testing.assert_close(training, fixing, rtol=1e-4, atol=1e-5)
    assert torch.equal(implants(supports), fixing)


def test_tasks_do_not_mix(tail):
    implants, maps = unsettled(tail), maps_for(tail, 3, 5)
    others = [torch.cat([part[:1], 3 * part[1:] + 1]) for part in maps]
    assert torch.equal(implants(maps)[0], implants(others)[0])


@pytest.mark.parametrize(
    ("tail", "parameters"),
    [
        (resnet12(64).tail, 193_152),
        (without_shortcut(resnet12(64).tail), 189_024),
        (c128f(64).tail, 128 * 9 * 16 + 2 * 16),
        (EfficientNetLite().tail, 320 * 16 + 2 * 16),
        (LAST_BLOCK, 16 * (192 + 9 * (1152 + 16) + (1152 + 16) + (320 + 16)) + 4 * 2 * 16),
    ],
    ids=list(TAILS)[:5],
)
def test_parameters_of_a_task(tail, parameters):
    for tasks in (1, 2):
        implants = new_implants(tail, sizes(tail), 16, [seeded(task) for task in range(tasks)])
        assert sum(parameter.numel() for parameter in implants.parameters()) == tasks * parameters
        assert len({id(parameter) for parameter in implants.parameters()}) == len(implants.parameters())


def test_initial_weights_are_he_with_fan_in():
    implants = new_implants(RESIDUAL, sizes(RESIDUAL), 16, [seeded(task) for task in range(40)])
    for implant, fan_in in zip(implants.layers, [9 * 8, 9 * (16 + 16), 9 * (16 + 16), 8], strict=True):
        for weight in (implant.base_weight, implant.implant_weight):
            if weight is not None:
                assert weight.std().item() == pytest.approx(math.sqrt(2 / fan_in), rel=0.03)
                assert abs(weight.mean().item()) < 0.03 * math.sqrt(2 / fan_in)
        assert torch.all(implant.gamma == 1)
        assert torch.all(implant.beta == 0)


def test_a_task_begins_with_implants_of_its_own_generator(tail):
    together = new_implants(tail, sizes(tail), 4, [seeded(task) for task in (5, 6, 7)]).parameters()
    alone = new_implants(tail, sizes(tail), 4, [seeded(6)]).parameters()
    for many, one in zip(together, alone, strict=True):
        assert torch.equal(many[1:2], one)
    assert not torch.equal(together[0][0], together[0][1])


def test_base_activations_get_no_gradient(tail):
    implants, maps = unsettled(tail), maps_for(tail, 3, 4)
    parameters = [parameter.requires_grad_() for parameter in implants.parameters()]
    gradients = torch.autograd.grad(implants(maps).square().sum(), parameters)
    assert all(gradient.abs().sum() > 0 for gradient in gradients)
    assert not any(part.requires_grad for part in maps)
