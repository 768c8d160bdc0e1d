"""One task as a user has it, against arithmetic by hand, against evaluation's methods, and against explicit loops."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from implanting.base import BaseNetwork, load_base
from implanting.classifier import Learned
from implanting.classifier.learning import (
    CALIBRATED,
    calibrating,
    learn,
    usual_calibration,
    with_implants,
)
from implanting.config import ImplantConfig, InferenceConfig
from implanting.dense_classification import PrototypeClassifier, left_out_cosines, pool
from implanting.fewshot import UNKNOWN, Calibration, Tasks
from implanting.images.preprocessing import view_of
from implanting.implants import ImplantMethod, compute_activations, encode, fitting_of
from rounding import assert_near
from toys import coloured, toy_base
from twins import naive_probabilities

SHADES = coloured(classes=4, per_class=6, size=32, seed=1, prefix="shade")
IMAGES, LABELS = SHADES.images[:16], SHADES.labels[:16]
QUERIES, TRUTH = SHADES.images[16:], SHADES.labels[16:]
UNEVEN = torch.tensor([0, 1, 2, 3, 0, 1, 2, 0, 1, 0])
CONFIG = ImplantConfig(implant_channels=3, implant_epochs=3)


def learned_by(base: BaseNetwork, labels: Tensor = LABELS, implants: bool = False, **pooling: Any) -> Learned:
    inference = InferenceConfig(**pooling)
    batches = iter(IMAGES[: len(labels)].split(5))  # of uneven size: how images are batched must not matter
    return learn(base, inference, CONFIG if implants else None, batches, labels, seed=7)


def answers(learned: Learned, images: Tensor = QUERIES) -> Tensor:
    return learned.probabilities(learned.cosines(learned.features(images)))


def uncalibrated(learned: Learned) -> Learned:
    return dataclasses.replace(learned, calibration=UNKNOWN)


@pytest.mark.parametrize(("support", "query"), [("gap", "dense"), ("gmp", "gap"), ("gap", "gmp")])
def test_without_implants_it_is_prototypes_by_hand(base, support, query):
    learned = learned_by(base, support_pooling=support, query_pooling=query)
    phi, asked = base.embed(IMAGES), base.embed(QUERIES)
    classify = PrototypeClassifier(support, query, base.tau)
    by_class = torch.stack([phi[way == LABELS] for way in range(4)])
    expected = naive_probabilities(classify, by_class[None], asked[None])[0]
    assert_near(answers(uncalibrated(learned)), expected, scale=1)
    for way in range(4):
        mean = torch.stack([pool(one, support)[0] for one in phi[way == LABELS]]).mean(0)
        assert_near(learned.prototypes[way], mean)
    assert learned.counts.tolist() == [4, 4, 4, 4]


def test_with_implants_it_is_evaluation_with_one_task(base):
    learned = learned_by(base, implants=True)
    activations = compute_activations(base, SHADES)
    method = ImplantMethod(activations, fitting_of(base, InferenceConfig(), CONFIG), seed=7)
    images = torch.stack([(SHADES.labels == way).nonzero().flatten() for way in range(4)])
    tasks = Tasks(
        SHADES.fingerprint, torch.tensor([0]), torch.arange(4)[None], images[None, :, :4], images[None, :, 4:]
    )
    expected = method.fitting.fit_implants(method.supports(tasks), method.generators(tasks))
    order = LABELS.argsort(stable=True)  # evaluation has supports class by class; sums round by their order
    assert torch.equal(SHADES.labels[tasks.support.flatten()], LABELS[order])
    queries = expected.probabilities(*activations.gather(tasks.query.flatten(1)))[0]
    found = answers(uncalibrated(learned), SHADES.images[tasks.query.flatten()])
    assert (found - queries).abs().max() < 1e-3  # training enlarges rounding; an epoch more or less is 5e-3
    assert torch.equal(found.argmax(1), queries.argmax(1))


def test_implants_are_those_of_the_seed(base):
    first, again = learned_by(base, implants=True), learned_by(base, implants=True)
    assert torch.equal(answers(first), answers(again))
    other = learn(base, InferenceConfig(), CONFIG, [IMAGES], LABELS, seed=8)
    assert not torch.equal(answers(first), answers(other))


@pytest.mark.parametrize("query", ["dense", "gap"])
@pytest.mark.parametrize("labels", [LABELS, UNEVEN])
def test_left_out_cosines_equal_a_loop(base, query, labels):
    learned = learned_by(base, labels, query_pooling=query)
    phi = base.embed(IMAGES[: len(labels)])
    vectors, queries = phi.mean(1), pool(phi, query)
    chosen = calibrating(labels)
    found = left_out_cosines(queries[chosen], vectors[chosen], labels[chosen], learned.prototypes, learned.counts)
    for place, image in enumerate(chosen.tolist()):
        for way in range(4):
            rest = [other for other in range(len(labels)) if labels[other] == way and other != image]
            prototype = torch.stack([vectors[other] for other in rest]).mean(0)
            expected = torch.stack(
                [torch.dot(location, prototype) / (location.norm() * prototype.norm()) for location in queries[image]]
            )
            assert_near(found[place, :, way], expected, scale=1)


def test_classes_with_three_images_calibrate_the_others_do_not():
    assert calibrating(UNEVEN).tolist() == [0, 1, 4, 5, 7, 8, 9]
    assert calibrating(torch.tensor([0, 0, 1, 1])).tolist() == []
    many = torch.arange(1000).repeat_interleave(5)
    chosen = calibrating(many)
    assert CALIBRATED / 2 < len(chosen) <= CALIBRATED
    assert len(set(many[chosen].tolist())) == len(chosen)  # spread over the classes


@pytest.mark.parametrize("implants", [False, True])
def test_supports_tell_how_sure_it_is_where_they_are_enough(base, implants):
    learned = learned_by(base, implants=implants)
    assert learned.calibration.told_by == "supports"
    assert len(learned.calibration.known) == 16
    few = learned_by(base, torch.tensor([0, 1, 0, 1]), implants)
    assert few.calibration == UNKNOWN


def test_where_supports_are_too_few_the_base_tells(base):
    assert usual_calibration(base, torch.tensor([1, 1])) == UNKNOWN
    stored = Calibration(2.0, (-0.9, -0.8), "base")
    training = dataclasses.replace(base.description.training, calibration=stored.document())
    taught = BaseNetwork.from_training(
        base.network, base.classifier, dataclasses.replace(base.description, training=training)
    )
    few = learned_by(taught, torch.tensor([0, 1, 0, 1]))
    assert few.calibration == stored
    assert not torch.allclose(answers(few), answers(uncalibrated(few)))
    enough = learned_by(taught).calibration
    assert enough.told_by == "supports"
    assert enough.usual == stored.known  # for shares that its own images cannot tell


def test_the_imagenet_base_tells_it_by_the_number_of_images():
    base = load_base("efficientnet-lite0")
    one, two = (usual_calibration(base, torch.tensor([shots, shots])) for shots in (1, 2))
    assert one.told_by == two.told_by == "base"
    assert one.power < two.power < 1  # prototypes of fewer images are surer than they may be
    assert one.threshold(0.05) > two.threshold(0.05)  # and further from their own images
    assert usual_calibration(base, torch.tensor([1, 1, 2])) == one
    other = usual_calibration(base.with_tau(2 * base.tau), torch.tensor([1, 1]))
    assert other.power == pytest.approx(one.power / 2)


def test_images_that_come_later_are_averaged_over_views_as_the_first_were(base):
    labels = LABELS[:8]
    whole, part = (learned_by(base, some, support_views=6) for some in (labels, labels[:4]))
    further = part.with_images([IMAGES[4:8]], labels[4:])
    assert_near(further.prototypes, whole.prototypes)
    by_hand = torch.stack([pool(base.embed(view_of(IMAGES[:8], view)), "gap").squeeze(1) for view in range(6)]).mean(0)
    expected = torch.stack([by_hand[labels == way].mean(0) for way in range(4)])
    assert_near(whole.prototypes, expected)
    assert not torch.allclose(whole.prototypes, learned_by(base, labels).prototypes)


def test_further_images_are_learnt_as_if_they_had_been_there(base):
    whole, part = learned_by(base), learned_by(base, LABELS[:9])
    grown = part.with_images([IMAGES[9:10], IMAGES[10:12]], LABELS[9:12]).with_images([IMAGES[12:]], LABELS[12:])
    assert_near(grown.prototypes, whole.prototypes)
    assert torch.equal(grown.counts, whole.counts)


@pytest.mark.parametrize("implants", [False, True])
def test_a_class_that_comes_and_goes_leaves_the_others_bit_for_bit(base, implants):
    before = learned_by(base, implants=implants)
    before, places = dataclasses.replace(before, classes=np.array([0, 10, 20, 30])), torch.tensor([0, 1, 3, 4])
    grown = before.with_classes(np.array([0, 10, 15, 20, 30])).with_images([QUERIES[:3]], torch.tensor([2, 2, 2]))
    assert torch.equal(grown.prototypes[places], before.prototypes)
    assert grown.counts.tolist() == [4, 4, 3, 4, 4]
    after = grown.without(2)
    assert after.classes.tolist() == [0, 10, 20, 30]
    assert torch.equal(after.prototypes, before.prototypes)
    assert torch.equal(after.counts, before.counts)
    assert torch.equal(answers(after), answers(before))


def test_auto_is_implants_where_they_pay(base):
    assert with_implants("auto", base, torch.tensor([2, 2, 1]))
    assert not with_implants("auto", base, torch.tensor([1, 1, 2]))
    assert not with_implants("auto", base, torch.tensor([400, 400]))  # training would take minutes
    assert not with_implants("auto", toy_base(pooling="flatten"), torch.tensor([5, 5]))
    assert with_implants(True, base, torch.tensor([1, 1]))
    assert not with_implants(False, base, torch.tensor([5, 5]))


def test_a_flattened_base_classifies():
    base = toy_base(pooling="flatten")
    learned = learned_by(base, implants=False)
    assert learned.prototypes.shape == (4, 4 * base.network.dim)
    assert answers(learned).shape == (8, 4)


def test_no_image_has_no_answer(base):
    for implants in (False, True):
        assert answers(learned_by(base, implants=implants), QUERIES[:0]).shape == (0, 4)


def test_features_are_the_bases_and_then_the_implants(base):
    learned = learned_by(base, implants=True)
    _, phi, _ = encode(base, QUERIES)
    wide = learned.features(QUERIES)
    assert torch.equal(wide[..., : phi.shape[-1]], phi)
    assert wide.shape[-1] == phi.shape[-1] + CONFIG.implant_channels
