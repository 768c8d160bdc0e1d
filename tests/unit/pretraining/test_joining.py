import dataclasses
import re
from collections.abc import Sequence

import pytest
import torch

from implanting.base import MEAN_DIRECTION, BaseNetwork, load_base, save_base
from implanting.config import NetworkConfig
from implanting.dense_classification import locations
from implanting.errors import ConfigError
from implanting.evaluation import evaluate
from implanting.networks import Network
from implanting.pretraining import generalised, join, joining, pretrain
from implanting.pretraining.joining import LENGTH
from rounding import assert_near
from toys import coloured, tiny_config, toy_base

NOVEL = coloured(classes=5, per_class=12, prefix="shade")
IMAGES = NOVEL.images[::10]


def member(seed: int, **changes) -> BaseNetwork:
    return toy_base(seed=seed, **changes)


def balanced(bases: Sequence[BaseNetwork]) -> torch.Tensor:
    """The features of some images by each network in turn, at equal mean lengths on all images, together LENGTH."""
    lengths = [base.embed(NOVEL.images).mean(1).norm(dim=1).mean() for base in bases]
    share = LENGTH / len(bases) ** 0.5
    return torch.cat([share / length * base.embed(IMAGES) for base, length in zip(bases, lengths, strict=True)], dim=2)


@pytest.mark.parametrize("network", ["resnet12", "c128f"])
@torch.no_grad()
def test_features_are_those_of_the_members_one_after_the_other(network):
    architecture = dataclasses.replace(tiny_config().architecture, network=network)
    members = [member(seed, architecture=architecture) for seed in (1, 2, 3)]
    assert_near(join(members, NOVEL).embed(IMAGES), balanced(members))
    two = join(members[:2], NOVEL)  # what was joined can be joined
    assert_near(join([two, members[2]], NOVEL).embed(IMAGES), balanced([two, members[2]]))


@torch.no_grad()
def test_implants_read_the_channels_of_all_members():
    members = [member(1), member(2)]
    joined = join(members, NOVEL)
    assert joined.tail is not None
    maps, phi = joined.activations(IMAGES)
    apart = [each.activations(IMAGES) for each in members]
    assert [layer.channels for layer in joined.tail.layers] == [
        2 * layer.channels
        for layer in members[0].tail.layers  # type: ignore[union-attr]
    ]
    for place, values in enumerate(maps):
        assert_near(values, torch.cat([each[0][place] for each in apart], dim=1))
    assert_near(phi.flatten(2).mT, balanced(members))


@torch.no_grad()
def test_base_classes_are_scored_by_the_members_together():
    members = [member(1, tau=5.0), member(2, tau=9.0)]
    joined = join(members, NOVEL)
    assert joined.tau == pytest.approx(7.0)
    phi = joined.embed(IMAGES)
    assert joined.classifier is not None
    rows, columns = joined.map_size(*IMAGES.shape[1:3])
    maps = phi.transpose(1, 2).unflatten(2, (rows, columns))
    halves = [part / phi.norm(dim=-1, keepdim=True) for part in phi.split(phi.shape[2] // 2, dim=2)]
    cosines = [
        half @ torch.nn.functional.normalize(each.class_weights, dim=1).mT
        for half, each in zip(halves, members, strict=True)
    ]
    assert_near(joined.classifier(maps), 7.0 * sum(cosines) / 2**0.5)
    assert torch.equal(locations(maps), phi)


def test_a_joined_network_is_tested_calibrated_saved_and_adapted(tmp_path):
    base, novel = coloured(classes=4, per_class=12), NOVEL
    members = [pretrain(tiny_config(seed=seed), base, None, None, device="cpu") for seed in (0, 1)]
    joined = join(members, novel)
    assert joined.description is not None
    training = joined.description.training
    assert training.calibration is not None
    assert training.validation[0].tasks > 0
    assert training.seconds == pytest.approx(
        sum(each.description.training.seconds for each in members if each.description)
    )
    assert isinstance(joined.network, Network)
    save_base(tmp_path / "both.safetensors", joined.network, joined.classifier, joined.description)
    loaded = load_base(tmp_path / "both.safetensors")
    assert loaded.fingerprint == joined.fingerprint
    assert loaded.name.startswith("2 x resnet12 of width 2")
    result = evaluate(loaded, novel, way=3, shot=2, queries=3, tasks=4, implants=True)
    assert len(result.per_task) == 4


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (toy_base(architecture=dataclasses.replace(tiny_config().architecture, width=3)), "another architecture"),
        (toy_base(architecture=NetworkConfig(width=2, last_pool=False)), "another architecture"),
        (toy_base(size=48), "another size of images"),
        (toy_base(architecture=dataclasses.replace(tiny_config().architecture, wide=True)), "`wide`"),
        (toy_base(pooling="flatten"), "cannot be joined"),
        (toy_base(method="pn", pooling="gap"), "cannot be joined"),
    ],
)
def test_networks_that_do_not_fit_are_refused(other, reason):
    with pytest.raises(ConfigError, match=re.escape(reason)):
        join([member(1), other], NOVEL)


def test_other_training_images_are_refused():
    one, other = member(1), member(2)
    assert other.description is not None
    other.description = dataclasses.replace(other.description, data_fingerprint="4567")
    with pytest.raises(ConfigError, match="another set of training images"):
        join([one, other], NOVEL)


@torch.no_grad()
def test_the_mean_direction_of_base_images_against_a_loop(monkeypatch):
    monkeypatch.setattr(joining, "PER_CLASS", 5)
    base = member(1, pooling="gap", centred=True)
    images = coloured(classes=3, per_class=12, size=32)
    directions = []
    for number in range(3):
        for image in images.images[images.labels == number][:5]:
            vector = base.network(base.preprocessing.normalisation(image[None])).clamp(min=0).square()
            rooted = vector.mean((2, 3)).sqrt()[0]
            directions.append(rooted / rooted.norm())
    found = generalised(base, images)
    assert_near(found.mean_direction, torch.stack(directions).mean(0))
    assert found.usage.pooling == "gem-centred"
    assert found.summary()["tested with"] == "gem-centred, if no pooling is named"
    assert found.reading_dims == (16, 16)
    plain = member(1, pooling="gap")
    generalised(plain, images)
    assert plain.reading_dims == (16,)  # a base never changes
    assert plain.read(images.images[:2]).shape == (2, 16)
    with pytest.raises(ConfigError, match="not trained on the classes of shades"):
        generalised(base, NOVEL)


def test_a_finished_run_that_is_resumed_keeps_the_mean_direction(tmp_path):
    images, out, config = coloured(classes=4, per_class=12), tmp_path / "base.safetensors", tiny_config(pooling="gap")
    trained = generalised(pretrain(config, images, None, out, device="cpu"), images)
    assert isinstance(trained.network, Network)
    assert trained.description is not None
    further = {MEAN_DIRECTION: trained.mean_direction}
    save_base(out, trained.network, trained.classifier, trained.description, further)
    again = dataclasses.replace(config, validation_tasks=4)  # so that it is calibrated and written once more
    resumed = pretrain(again, images, NOVEL, out, device="cpu", resume=True)
    for base in (resumed, load_base(out)):
        assert torch.equal(base.mean_direction, trained.mean_direction)
        assert base.description.training.calibration is not None


def test_one_network_is_not_joined():
    with pytest.raises(ConfigError, match="give two or more"):
        join([member(1)], NOVEL)
