import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from commands import ENVIRONMENT
from implanting.base import load_base
from implanting.config import ImplantConfig
from implanting.dense_classification import PrototypeClassifier
from implanting.errors import ConfigError, DataError
from implanting.implants import Implants, Supports, compute_activations
from implanting.implants.adaptation import adapt, inner_products, leave_one_out_loss, leave_one_out_scores
from implanting.implants.stream import new_implants
from implanting.networks.resnet12 import c128f, resnet12
from toys import coloured, same, seeded, toy_base
from twins import naive_adapt, naive_implants, naive_loss, naive_probabilities, naive_scores

TAIL, SIZES = resnet12(1).tail, ((4, 5),) * 3
"""Maps of 4 channels, then 8, at 4 x 5 locations, pooled to 2 x 2."""

CONFIG = ImplantConfig(implant_channels=3, implant_epochs=30, implant_learning_rate=1e-2)
UNEVEN = torch.tensor([1, 0, 2, 0, 1, 1, 0, 3, 1])
"""Three supports of class 0, four of class 1, and one each of classes 2 and 3."""

POOLINGS = list(itertools.product(["gap", "gmp"], ["gap", "gmp", "dense"]))


def pooled_by(support: str, query: str) -> ImplantConfig:
    return replace(CONFIG, adapt_support_pooling=support, adapt_query_pooling=query)


def drawn(labels: Tensor, tasks: int = 4, seed: int = 0) -> tuple[list[Tensor], Tensor]:
    """Base maps and phi of images that lie about the centre of their class, in every task about another."""
    generator = seeded(seed)

    def about_centres(locations: int, channels: int) -> Tensor:
        centres = torch.randn(tasks, int(labels.max()) + 1, 1, channels, generator=generator)
        return centres[:, labels] + 1.5 * torch.randn(tasks, len(labels), locations, channels, generator=generator)

    return [about_centres(20, channels) for channels in (4, 8, 8)], about_centres(4, 8)


def generators(*tasks: int) -> list[torch.Generator]:
    return [seeded(100 + task) for task in tasks]


def scores_of(phi: Tensor, implant: Tensor, labels: Tensor, config: ImplantConfig) -> Tensor:
    membership = F.one_hot(labels).to(phi.dtype)
    products = inner_products(phi, membership, config) + inner_products(implant, membership, config)
    return leave_one_out_scores(products, membership, config.implant_tau)


def loss_of(phi: Tensor, implant: Tensor, labels: Tensor, config: ImplantConfig) -> Tensor:
    return leave_one_out_loss(scores_of(phi, implant, labels, config), labels, labels.bincount()[labels] > 1)


def queries_by(implants: Implants, maps: list[Tensor]) -> Tensor:
    with torch.no_grad():
        return implants(maps)


def strangers(tasks: int = 4) -> list[Tensor]:
    """Base maps of images that are supports of no task."""
    return [part[:tasks] for part in drawn(torch.zeros(6, dtype=torch.long), seed=50)[0]]


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize(("support", "query"), POOLINGS)
def test_scores_against_prototypes_made_without_the_query(support, query):
    (_, _, implant), phi = drawn(UNEVEN)
    config = pooled_by(support, query)
    scores = scores_of(phi, implant[:, :, :4, :3], UNEVEN, config)
    for task in range(4):
        expected = naive_scores(torch.cat([phi, implant[:, :, :4, :3]], -1)[task], UNEVEN, config)
        assert list(expected) == [0, 1, 3, 4, 5, 6, 8]
        for image, naive in expected.items():
            torch.testing.assert_close(scores[task, image], naive)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize(("support", "query"), POOLINGS)
def test_loss_is_the_sum_over_tasks_of_each_tasks_mean(support, query):
    (_, _, implant), phi = drawn(UNEVEN)
    config, wide = pooled_by(support, query), torch.cat([phi, implant[:, :, :4, :3]], -1)
    expected = sum(naive_loss(wide[task], UNEVEN, config) for task in range(4))
    torch.testing.assert_close(loss_of(phi, implant[:, :, :4, :3], UNEVEN, config), expected)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize(("support", "query"), [("gap", "gap"), ("gmp", "dense")])
def test_adapting_equals_training_by_convolutions_and_loops(support, query):
    maps, phi = drawn(UNEVEN, tasks=2)
    config = replace(pooled_by(support, query), implant_epochs=5)
    implants = adapt(Supports(maps, phi, UNEVEN, SIZES), TAIL, config, generators(0, 1))
    answers = queries_by(implants, strangers(2))
    for task in range(2):
        alone = [part[task : task + 1] for part in maps]
        twin = new_implants(TAIL, SIZES, config.implant_channels, generators(task))
        statistics = naive_adapt(twin, alone, phi[task : task + 1], UNEVEN, config)
        with torch.no_grad():
            expected, _ = naive_implants(twin, 0, [part[task : task + 1] for part in strangers()], statistics)
        torch.testing.assert_close(answers[task], expected)


@pytest.mark.usefixtures("in_float64")
def test_tasks_adapted_together_equal_tasks_adapted_one_by_one():
    labels = torch.arange(3).repeat_interleave(3)
    maps, phi = drawn(labels)
    together = queries_by(adapt(Supports(maps, phi, labels, SIZES), TAIL, CONFIG, generators(0, 1, 2, 3)), strangers())
    for task in range(4):
        one = slice(task, task + 1)
        implants = adapt(Supports(maps, phi, labels, SIZES)[one], TAIL, CONFIG, generators(task))
        alone = queries_by(implants, [part[one] for part in strangers()])
        torch.testing.assert_close(together[one], alone)


@pytest.mark.parametrize(("support", "query"), POOLINGS)
def test_the_loss_goes_down(support, query):
    maps, phi = drawn(UNEVEN)
    config = pooled_by(support, query)
    before = new_implants(TAIL, SIZES, 3, generators(0, 1, 2, 3))
    after = adapt(Supports(maps, phi, UNEVEN, SIZES), TAIL, config, generators(0, 1, 2, 3))
    losses = [loss_of(phi, queries_by(implants, maps), UNEVEN, config).item() for implants in (before, after)]
    assert losses[1] < 0.8 * losses[0]


def test_a_lone_support_is_a_prototype_but_never_a_query():
    (_, _, implant), phi = drawn(UNEVEN)
    implant = implant[:, :, :4, :3].requires_grad_()
    scores = scores_of(phi, implant, UNEVEN, CONFIG)
    scores.retain_grad()
    leave_one_out_loss(scores, UNEVEN, UNEVEN.bincount()[UNEVEN] > 1).backward()
    asked = scores.grad.abs().sum((0, 2, 3)) > 0
    assert asked.tolist() == [True, True, False, True, True, True, True, False, True]
    assert torch.all(implant.grad[:, [2, 7]].abs().sum((1, 2, 3)) > 0)
    assert torch.isfinite(implant.grad).all()


def test_a_task_with_lone_supports_is_adapted_by_their_prototypes():
    maps, phi = drawn(UNEVEN)
    moved = phi.clone()
    moved[:, 7] += 2 * torch.randn(phi[:, 7].shape, generator=seeded(3))
    answers = [
        queries_by(adapt(Supports(maps, base, UNEVEN, SIZES), TAIL, CONFIG, generators(0, 1, 2, 3)), strangers())
        for base in (phi, moved)
    ]
    assert torch.isfinite(answers[0]).all()
    assert (answers[0] - answers[1]).abs().max() > 0.01


@pytest.mark.parametrize("name", ["resnet12", "efficientnet-lite0"])
def test_the_base_stays_bitwise_as_it_was(name):
    base = toy_base() if name == "resnet12" else load_base(name)
    image_set = coloured(per_class=4, size=32)
    activations = compute_activations(base, image_set)
    cached = [*activations.base_maps, activations.phi]
    before = (
        {name: value.clone() for name, value in base.network.state_dict().items()},
        [part.clone() for part in cached],
    )
    images = torch.arange(12)
    maps, phi = activations.gather(images[None])
    given = [part.clone() for part in (*maps, phi)]
    adapt(Supports(maps, phi, image_set.labels[images], activations.sizes), base.tail, CONFIG, generators(0))
    assert same(base.network.state_dict(), before[0])
    assert all(torch.equal(*pair) for pair in zip(cached, before[1], strict=True))
    assert all(torch.equal(*pair) for pair in zip((*maps, phi), given, strict=True))
    assert not any(part.requires_grad for part in (*cached, *maps, phi, *base.network.parameters()))


@pytest.mark.usefixtures("in_float64")
def test_the_order_of_supports_does_not_matter():
    maps, phi = drawn(UNEVEN)
    order = torch.randperm(len(UNEVEN), generator=seeded(1))
    first = adapt(Supports(maps, phi, UNEVEN, SIZES), TAIL, CONFIG, generators(0, 1, 2, 3))
    moved = Supports([part[:, order] for part in maps], phi[:, order], UNEVEN[order], SIZES)
    second = adapt(moved, TAIL, CONFIG, generators(0, 1, 2, 3))
    answers = queries_by(first, strangers()), queries_by(second, strangers())
    torch.testing.assert_close(*answers)


@pytest.mark.usefixtures("in_float64")
def test_other_numbers_for_the_classes_permute_the_scores():
    maps, phi = drawn(UNEVEN)
    numbers = torch.tensor([2, 0, 3, 1])
    answers = []
    for labels in (UNEVEN, numbers[UNEVEN]):
        implants = adapt(Supports(maps, phi, labels, SIZES), TAIL, CONFIG, generators(0, 1, 2, 3))
        answers.append(scores_of(phi, queries_by(implants, maps), labels, CONFIG))
    asked = UNEVEN.bincount()[UNEVEN] > 1
    torch.testing.assert_close(answers[0][:, asked], answers[1][..., numbers][:, asked])
    assert (answers[0] - answers[1])[:, asked].abs().max() > 0.1


def silent_implants(labels: Tensor) -> tuple[Implants, list[Tensor], Tensor]:
    """Implants whose last batch norms give zero."""
    maps, phi = drawn(labels)
    implants = new_implants(TAIL, SIZES, 3, generators(0, 1, 2, 3))
    implants.layers[-1].gamma.zero_()
    implants.layers[2].gamma.zero_()
    return implants, maps, phi


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize(("support", "query"), POOLINGS)
def test_silent_implants_leave_the_prototype_classifier(support, query):
    labels = torch.arange(3).repeat_interleave(3)
    implants, maps, phi = silent_implants(labels)
    implant = queries_by(implants, maps)
    assert torch.all(implant == 0)
    config = pooled_by(support, query)
    classify = PrototypeClassifier(support, query, config.implant_tau)
    probabilities = scores_of(phi, implant, labels, config).softmax(-1).mean(2)
    by_class = phi.unflatten(1, (3, 3))
    for left_out in range(3):
        # The classifier takes as many shots of each class: 2 supports three times and 3 supports twice are 6, and a
        # mean does not mind repetition.
        rest = torch.stack([by_class[:, 0, shot] for shot in range(3) if shot != left_out], 1).repeat(1, 3, 1, 1)
        supports = torch.stack([rest, by_class[:, 1].repeat(1, 2, 1, 1), by_class[:, 2].repeat(1, 2, 1, 1)], 1)
        expected = naive_probabilities(classify, supports, by_class[:, 0, left_out : left_out + 1])
        torch.testing.assert_close(probabilities[:, left_out, None], expected)


def test_silent_implants_never_start_to_train():
    # Why implants do not begin at zero: the cosine has no gradient there.
    implants, maps, phi = silent_implants(UNEVEN)
    parameters = [parameter.requires_grad_() for parameter in implants.parameters()]
    gradients = torch.autograd.grad(loss_of(phi, implants(maps), UNEVEN, CONFIG), parameters)
    assert all(torch.all(gradient == 0) for gradient in gradients)


@pytest.mark.parametrize(("support", "query"), POOLINGS)
def test_gradient_runs_through_the_prototypes(support, query):
    config = pooled_by(support, query)
    maps, phi = drawn(UNEVEN, tasks=1)
    maps, phi = [part.double() for part in maps], phi.double()
    implants = new_implants(TAIL, SIZES, 2, generators(0))
    for implant in implants.layers:
        for name in ("base_weight", "implant_weight", "gamma", "beta"):
            if (weight := getattr(implant, name)) is not None:
                setattr(implant, name, weight.double())
    parameters = [parameter.requires_grad_() for parameter in implants.parameters()]
    gradients = torch.autograd.grad(loss_of(phi, implants(maps), UNEVEN, config), parameters)

    @torch.no_grad()
    def naive() -> float:
        return naive_loss(torch.cat([phi[0], naive_implants(implants, 0, maps)[0]], -1), UNEVEN, config).item()

    generator = seeded(4)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        step, losses = 1e-6, []
        for sign in (1, -2, 1):
            parameter.data += sign * step * direction
            losses.append(naive())
        difference = (losses[0] - losses[1]) / (2 * step)
        assert (gradient * direction).sum().item() == pytest.approx(difference, rel=1e-5, abs=1e-7)


def test_c128f_is_adapted_too():
    labels = torch.arange(3).repeat_interleave(3)
    (_, maps, _), phi = drawn(labels)
    tail = c128f(4).tail
    before = new_implants(tail, SIZES[:1], 3, generators(0, 1, 2, 3))
    after = adapt(Supports([maps], phi, labels, SIZES[:1]), tail, CONFIG, generators(0, 1, 2, 3))
    losses = [loss_of(phi, queries_by(implants, [maps]), labels, CONFIG).item() for implants in (before, after)]
    assert losses[1] < 0.8 * losses[0]


THOUSAND_WAYS = """
import torch
import torch.nn.functional as F
from implanting.implants.adaptation import inner_products, leave_one_out_loss, leave_one_out_scores
from implanting.config import ImplantConfig

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

torch.set_num_threads(1)
phi, labels, config = torch.rand(1, 5000, 1, 512), torch.arange(1000).repeat_interleave(5), ImplantConfig()
implant = torch.rand(1, 5000, 1, 16, requires_grad=True)
membership = F.one_hot(labels).float()
before = peak()
constant = inner_products(phi, membership, config)
scores = leave_one_out_scores(constant + inner_products(implant, membership, config), membership, 10.0)
leave_one_out_loss(scores, labels, torch.ones(5000, dtype=torch.bool)).backward()
assert scores.shape == (1, 5000, 1, 1000) and torch.isfinite(implant.grad).all()
print((peak() - before) // 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_a_thousand_ways_fit_in_memory():
    # A prototype of 512 features for each of 1,000 classes and 5,000 left-out supports would need 10 GB.
    command = [sys.executable, "-c", THOUSAND_WAYS]
    finished = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
    assert finished.returncode == 0, finished.stderr
    assert int(finished.stdout) < 500


def test_one_support_a_class_cannot_train_implants():
    base, images = toy_base(size=32), coloured(classes=3, per_class=1, size=32)
    maps, phi = compute_activations(base, images).gather(torch.arange(3)[None])
    supports = Supports(maps, phi, torch.arange(3), ((4, 4),) * 3)
    with pytest.raises(DataError, match="two supports"):
        adapt(supports, base.tail, ImplantConfig(implant_channels=2), [seeded()])


def test_implants_that_diverge_are_no_result():
    maps, phi = drawn(UNEVEN)
    config = replace(CONFIG, implant_learning_rate=1e30)
    with pytest.raises(ConfigError, match=r"diverged in 4 of the 4 tasks.*lower `implant_learning_rate`"):
        adapt(Supports(maps, phi, UNEVEN, SIZES), TAIL, config, generators(0, 1, 2, 3))


def test_activations_that_are_not_finite_are_told_from_implants_that_diverge():
    maps, phi = drawn(UNEVEN)
    maps[0][2, 1, 3, 0] = torch.inf
    with pytest.raises(DataError, match="activations are not finite"):
        adapt(Supports(maps, phi, UNEVEN, SIZES), TAIL, CONFIG, generators(0, 1, 2, 3))
