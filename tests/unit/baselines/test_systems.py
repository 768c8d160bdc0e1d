"""The systems that are trained by episodes: their losses against loops written from their equations."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from implanting.baselines import Episodes
from implanting.baselines.dynamic_few_shot import DynamicFewShot, DynamicMethod, WeightGenerator
from implanting.baselines.maml import Maml, adapted, pooled_norm, scores_of
from implanting.baselines.prototypical_networks import PrototypicalNetworks
from implanting.baselines.tadam import Tadam, TadamMethod, co_trains, conditioned, convolution_channels
from implanting.config import EpisodeConfig, NetworkConfig, TaskConfig
from implanting.dense_classification import CosineClassifier
from implanting.errors import ConfigError
from implanting.fewshot import draw_tasks
from implanting.images import Normalisation
from implanting.networks import build_network
from toys import coloured, seeded, tiny_config

WAY, SHOT, QUERIES = 3, 2, 2


def episodes(count: int = 2, size: int = 16, further: int = 0) -> Episodes:
    shape = (count, WAY, SHOT + QUERIES, 3, size, size)
    classes = torch.stack([torch.tensor([4, 0, 2]), torch.tensor([1, 3, 5])])[:count]
    others = torch.tensor([1, 3, 5, 1, 3, 5, 0, 2, 4, 0, 2, 4])[: further * count]
    return Episodes(
        images=torch.randn(shape, generator=seeded(1)),
        shot=SHOT,
        classes=classes,
        further=torch.randn(further * count, 3, size, size, generator=seeded(2)) if further else None,
        further_labels=others if further else None,
    )


def cross_entropy(scores: list[Tensor], label: int) -> Tensor:
    """-log of the probability of one class among those of these scores."""
    each = torch.stack(scores)
    return each.logsumexp(0) - each[label]


def cosine(first: Tensor, second: Tensor) -> Tensor:
    return (first / first.norm()) @ (second / second.norm())


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_prototypical_networks_cost_what_the_equations_say(distance):
    config = tiny_config(pooling="gap", method="pn", episode=EpisodeConfig(distance=distance), tau=7.0)
    network = build_network(NetworkConfig(width=2)).eval()
    drawn = episodes()
    loss, accuracy = PrototypicalNetworks(network, config)(drawn)
    losses, right = [], []
    for images in drawn.images:
        vectors = [[network(image[None])[0].mean((1, 2)) for image in of_class] for of_class in images]
        means = [torch.stack(of_class[:SHOT]).mean(0) for of_class in vectors]
        for label, of_class in enumerate(vectors):
            for query in of_class[SHOT:]:
                near = [-(query - mean).square().sum() for mean in means]
                scores = near if distance == "euclidean" else [7 * cosine(query, mean) for mean in means]
                losses.append(cross_entropy(scores, label))
                right.append(float(torch.stack(scores).argmax() == label))
    assert loss.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-4)
    assert accuracy.item() == pytest.approx(sum(right) / len(right))


def dynamic() -> DynamicFewShot:
    config = tiny_config(pooling="gap", method="gidaris", start="some")
    network = build_network(NetworkConfig(width=2))
    classifier = CosineClassifier(6, network.dim, "gap", 5.0, (1, 1))
    system = DynamicFewShot(network, classifier, config).train()
    for parameter in system.own.parameters():  # none at the values where one of them could be left out unseen
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=seeded(3))
    return system


def generated(own: WeightGenerator, supports: Tensor, weights: Tensor, allowed: list[int]) -> Tensor:
    """The weight of one novel class, term by term."""
    average, attended = torch.zeros(weights.shape[1]), torch.zeros(weights.shape[1])
    for support in supports:
        direction = support / support.norm()
        query = own.query.weight @ direction + own.query.bias
        attention = torch.stack([own.gamma * cosine(query, own.keys[base]) for base in allowed]).softmax(0)
        attended = attended + sum(
            share * weights[base] / weights[base].norm() for share, base in zip(attention, allowed, strict=True)
        )
        average = average + direction
    count = len(supports)
    return own.average_scale * average / count + own.attention_scale * attended / count


def test_dynamic_few_shot_costs_what_the_equations_say():
    system, drawn = dynamic(), episodes(further=6)
    loss, _ = system(drawn)
    weights, tau = system.classifier.class_weights, system.classifier.tau
    losses = []
    for number, images in enumerate(drawn.images):
        novel = drawn.classes[number].tolist()
        allowed = [base for base in range(6) if base not in novel]
        vectors = [[system.network(image[None])[0].mean((1, 2)) for image in of_class] for of_class in images]
        made = [generated(system.own, torch.stack(some[:SHOT]), weights, allowed) for some in vectors]
        every = [*(weights[base] for base in allowed), *made]
        asked = [(query, len(allowed) + way) for way, some in enumerate(vectors) for query in some[SHOT:]]
        for image, label in zip(drawn.further[6 * number :][:6], drawn.further_labels[6 * number :][:6], strict=True):
            asked.append((system.network(image[None])[0].mean((1, 2)), allowed.index(int(label))))
        losses += [cross_entropy([tau * cosine(query, weight) for weight in every], label) for query, label in asked]
    assert loss.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-4)


def test_the_second_stage_leaves_the_network_and_its_statistics_alone():
    system = dynamic()
    before = {name: value.clone() for name, value in system.network.state_dict().items()}
    system(episodes(further=6))[0].backward()
    assert all(parameter.grad is None for parameter in system.network.parameters())
    assert all(parameter.grad is not None for parameter in (*system.own.parameters(), *system.classifier.parameters()))
    assert all(torch.equal(value, before[name]) for name, value in system.network.state_dict().items())


def test_generated_weights_answer_as_the_equations_say():
    system, images = dynamic(), coloured(4, 6)
    vectors = torch.randn(len(images), system.network.dim, generator=seeded(4))
    weights = system.classifier.class_weights.detach()
    tasks = draw_tasks(images, TaskConfig(way=3, shot=2, queries=2, tasks=5))
    _, given = DynamicMethod(vectors, system.own, weights)(tasks)
    for number, support in enumerate(tasks.support):
        made = [generated(system.own, vectors[of_class], weights, list(range(6))) for of_class in support]
        for row, answers in zip(tasks.query[number], given[number], strict=True):
            for image, answer in zip(row, answers, strict=True):
                best = torch.stack([cosine(vectors[image], weight) for weight in made]).argmax()
                assert answer == tasks.classes[number][best]


def maml(steps: int = 2, first_order: bool = False, network: str = "c64f") -> Maml:
    config = EpisodeConfig(
        train_way=WAY, train_shot=SHOT, inner_steps=steps, inner_learning_rate=0.1, first_order=first_order
    )
    return Maml(build_network(NetworkConfig(network, 2)), config, 1)


@pytest.mark.parametrize("network", ["c64f", "c128f"])
def test_the_functional_network_is_the_network_with_the_statistics_of_the_supports(network):
    system = maml(network=network).train()
    images = torch.randn(6, 3, 16, 16, generator=seeded(5))
    expected = system.own(system.network(images).flatten(1))  # in training mode: the statistics of the batch
    scores = scores_of(system.weights(), system.relus, images, 6)
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-5)
    more = torch.cat([images, torch.randn(3, 3, 16, 16, generator=seeded(6))])
    torch.testing.assert_close(scores_of(system.weights(), system.relus, more, 6)[:6], scores)  # queries change nothing


def test_channels_with_a_negative_scale_are_normalised_before_they_are_pooled():
    maps = torch.randn(4, 3, 5, 6, generator=seeded(5))
    gamma, beta = torch.tensor([0.7, -1.3, 0.0]), torch.tensor([0.1, 0.2, -0.4])
    expected = F.max_pool2d(F.batch_norm(maps, None, None, gamma, beta, training=True), 2)
    torch.testing.assert_close(pooled_norm(maps, gamma, beta, 4), expected)


@pytest.mark.usefixtures("in_float64")
def test_the_second_order_gradient_is_that_of_finite_differences():
    system, drawn = maml(), episodes()
    drawn = replace(drawn, images=drawn.images.double())
    names = [name for name, _ in system.named_parameters()]
    gradients = dict(zip(names, torch.autograd.grad(system(drawn)[0], list(system.parameters())), strict=True))

    def loss_at(name: str, direction: Tensor, step: float) -> float:
        moved = {name: dict(system.named_parameters())[name] + step * direction}
        return functional_call(system, moved, (drawn,))[0].item()

    for name in names:
        direction = torch.randn(gradients[name].shape, generator=seeded(7))
        slope = (loss_at(name, direction, 1e-5) - loss_at(name, direction, -1e-5)) / 2e-5
        assert float((gradients[name] * direction).sum()) == pytest.approx(slope, rel=1e-4, abs=1e-7), name


@pytest.mark.usefixtures("in_float64")
def test_the_first_order_gradient_is_that_at_the_adapted_weights():
    """With gradients of inner steps taken for constants, the outer gradient is that of the queries at the end."""
    system, drawn = maml(first_order=True), episodes(count=1)
    drawn = replace(drawn, images=drawn.images.double())
    found = torch.autograd.grad(system(drawn)[0], list(system.parameters()))
    support, query = drawn.images[0, :, :SHOT].flatten(0, 1), drawn.images[0, :, SHOT:].flatten(0, 1)
    labels = torch.arange(WAY).repeat_interleave(SHOT)
    learned = adapted(system.weights(), system.relus, support, labels, system.config, 2)
    learned = {name: value.detach().requires_grad_() for name, value in learned.items()}
    scores = scores_of(learned, system.relus, torch.cat([support, query]), len(support))[len(support) :]
    loss = F.cross_entropy(scores, drawn.labels())
    for one, other in zip(found, torch.autograd.grad(loss, list(learned.values())), strict=True):
        torch.testing.assert_close(one, other)
    second = torch.autograd.grad(maml_like(system)(drawn)[0], list(system.parameters()), allow_unused=True)
    assert any(a is None or not torch.allclose(a, b) for a, b in zip(second, found, strict=True))


def maml_like(system: Maml) -> Maml:
    """The same weights, second order."""
    other = maml()
    other.network, other.own = system.network, system.own
    return other


def test_inner_steps_are_gradient_descent_on_the_supports():
    system = maml()
    images = torch.randn(WAY * SHOT, 3, 16, 16, generator=seeded(8))
    labels = torch.arange(WAY).repeat_interleave(SHOT)
    weights = {name: value.detach().clone() for name, value in system.weights().items()}
    for _ in range(3):
        for value in weights.values():
            value.requires_grad_()
        loss = F.cross_entropy(scores_of(weights, system.relus, images, len(images)), labels)
        gradients = torch.autograd.grad(loss, list(weights.values()))
        weights = {
            name: (value - 0.1 * gradient).detach()
            for (name, value), gradient in zip(weights.items(), gradients, strict=True)
        }
    found = adapted(system.weights(), system.relus, images, labels, system.config, 3)
    for name, value in weights.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-5)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("network", ["c64f", "c128f"])
def test_tasks_one_after_the_other_have_the_scores_of_tasks_at_once(network):
    system, drawn = maml(network=network), episodes()
    for layer in system.network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.weight.data[0] *= -0.5
    support, query = (drawn.images.double()[:, :, part].flatten(1, 2) for part in (slice(SHOT), slice(SHOT, None)))
    labels = torch.arange(WAY).repeat_interleave(SHOT)
    at_once = system.task_scores(system.weights(), support, query, labels, 4)
    before = {name: value.clone() for name, value in system.weights().items()}
    torch.testing.assert_close(system.scores_in_turn(support, query, labels, 4), at_once)
    assert all(torch.equal(value, before[name]) for name, value in system.weights().items())
    unchanged = system.scores_in_turn(support, query, labels, 0)
    assert not torch.allclose(unchanged, at_once)


def test_maml_is_for_plain_convolutions():
    with pytest.raises(ConfigError, match="c64f or c128f"):
        Maml(build_network(NetworkConfig("resnet12", 2)), EpisodeConfig(), 1)


@pytest.mark.parametrize("changes", [{"members": 2}, {"last_pool": False}])
def test_maml_refuses_networks_that_its_own_pass_would_not_compute(changes):
    with pytest.raises(ConfigError, match="leave out `members`, `last_pool`"):
        Maml(build_network(NetworkConfig("c64f", 2, **changes)), EpisodeConfig(), 1)


def tadam() -> Tadam:
    config = tiny_config(pooling="gap", method="tadam", tau=1.5)
    system = Tadam(build_network(NetworkConfig(width=2)), config, 6).eval()
    for name, parameter in system.own.named_parameters():
        if "multiplier" in name:
            parameter.data += torch.rand((), generator=seeded(9)) + 0.2
    return system


def film_of(system: Tadam, code: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Scale and shift of each convolution, from the equations."""

    def predicted(predictor, code: Tensor) -> Tensor:
        hidden = (predictor.project.weight @ code + predictor.project.bias).clamp_min(0)
        hidden = (hidden + predictor.residual.weight @ hidden + predictor.residual.bias).clamp_min(0)
        return predictor.multiplier * (predictor.predict.weight @ hidden + predictor.predict.bias)

    pairs = zip(system.own.scales, system.own.shifts, strict=True)
    return [(1 + predicted(scale, code), predicted(shift, code)) for scale, shift in pairs]


def conditioned_vector(system: Tadam, image: Tensor, films: list[tuple[Tensor, Tensor]]) -> Tensor:
    """One image through ResNet-12, its convolutions conditioned one by one."""
    x, films = image[None], list(films)

    def changed(maps: Tensor) -> Tensor:
        scale, shift = films.pop(0)
        return maps * scale[:, None, None] + shift[:, None, None]

    for block in system.network.blocks:
        a1 = F.silu(changed(block.norm1(block.conv1(x))))
        a2 = F.silu(changed(block.norm2(block.conv2(a1))))
        a3 = changed(block.norm3(block.conv3(a2))) + block.shortcut_norm(block.shortcut(x))
        x = F.max_pool2d(F.silu(a3), 2)
    assert not films
    return x[0].mean((1, 2))


def test_tadam_costs_what_the_equations_say():
    system, drawn = tadam(), episodes()
    loss, _ = system(drawn)
    losses = []
    for images in drawn.images:
        plain = [system.network(image[None])[0].mean((1, 2)) for image in images[:, :SHOT].flatten(0, 1)]
        films = film_of(system, torch.stack(plain).mean(0))
        vectors = [[conditioned_vector(system, image, films) for image in of_class] for of_class in images]
        means = [torch.stack(of_class[:SHOT]).mean(0) for of_class in vectors]
        for label, of_class in enumerate(vectors):
            for query in of_class[SHOT:]:
                losses.append(cross_entropy([-1.5 * (query - mean).square().sum() for mean in means], label))
    multipliers = [value for name, value in system.own.named_parameters() if "multiplier" in name]
    penalty = 0.01 * sum(value.square() for value in multipliers)
    assert len(multipliers) == 2 * len(convolution_channels(system.network)) == 24
    assert loss.item() == pytest.approx((torch.stack(losses).mean() + penalty).item(), rel=1e-4)


def test_tadam_begins_as_prototypical_networks():
    config = tiny_config(pooling="gap", method="tadam", tau=1.0)
    network = build_network(NetworkConfig(width=2)).eval()
    drawn = episodes()
    loss, accuracy = Tadam(network, config, 6).eval()(drawn)
    expected = PrototypicalNetworks(network, replace(config, method="pn"))(drawn)
    torch.testing.assert_close(torch.stack([loss, accuracy]), expected)


def test_a_step_of_co_training_is_one_of_classification():
    system = tadam()
    drawn = replace(
        episodes(further=6), images=torch.empty(0, 0, 0, 3, 16, 16), classes=torch.empty(0, 0, dtype=torch.int64)
    )
    loss, _ = system(drawn)
    vectors = [system.network(image[None])[0].mean((1, 2)) for image in drawn.further]
    logits = [list(system.own.auxiliary(vector)) for vector in vectors]
    losses = [cross_entropy(scores, int(label)) for scores, label in zip(logits, drawn.further_labels, strict=True)]
    assert loss.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-4)


def test_co_training_gets_rarer():
    assert [sum(co_trains(0.9, progress, drawn / 100) for drawn in range(100)) for progress in (0.0, 0.05, 0.5)] == [
        100,
        90,
        35,
    ]
    assert not co_trains(0.0, 0.0, 0.0)


def test_tadam_answers_tasks_of_a_batch_as_each_by_itself():
    system, images = tadam(), coloured(4, 6)
    normalisation = Normalisation((0.5,) * 3, (0.25,) * 3)
    with torch.no_grad():
        plain = system.network(normalisation(images.images)).mean((2, 3))
    tasks = draw_tasks(images, TaskConfig(way=3, shot=2, queries=2, tasks=4))
    method = TadamMethod(system, images.images, normalisation, plain)
    _, given = method(tasks)
    pixels = normalisation(images.images)
    for number, support in enumerate(tasks.support):
        films = film_of(system, plain[support].mean((0, 1)))
        means = [
            torch.stack([conditioned_vector(system, pixels[image], films) for image in some]).mean(0)
            for some in support
        ]
        for row, answers in zip(tasks.query[number], given[number], strict=True):
            for image, answer in zip(row, answers, strict=True):
                query = conditioned_vector(system, pixels[image], films)
                best = torch.stack([-(query - mean).square().sum() for mean in means]).argmax()
                assert answer == tasks.classes[number][best]


def test_without_conditioning_the_network_is_as_it_is():
    network = build_network(NetworkConfig(width=2)).eval()
    images = torch.randn(4, 3, 16, 16, generator=seeded(10))
    films = [(torch.ones(2, channels), torch.zeros(2, channels)) for channels in convolution_channels(network)]
    torch.testing.assert_close(conditioned(network, images, films, 2), network(images))
