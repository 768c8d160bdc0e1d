"""Episodes: what a step draws, whatever came before it; training by episodes, stopped and resumed."""

import dataclasses

import pytest
import torch

from implanting.base import load_base
from implanting.config import AugmentConfig, EpisodeConfig, NetworkConfig
from implanting.pretraining import prepare, pretrain
from implanting.pretraining.episodes import EpisodeSource
from toys import coloured, same, tiny_config

IMAGES = coloured(6, 8, 16)
EPISODE = EpisodeConfig(train_way=3, train_shot=2, train_queries=2, episodes=2)
QUICK = {"pooling": "gap", "optimizer": "adam", "learning_rate": 1e-3, "episode": EPISODE}


def source(method: str = "pn", **changes) -> EpisodeSource:
    start = "some" if method == "gidaris" else None
    return EpisodeSource(IMAGES, tiny_config(method=method, start=start, **{**QUICK, **changes}))


def test_an_episode_has_its_classes_and_no_image_twice():
    drawn = source().draw(4, 10)
    assert drawn.indices.shape == (2, 3, 4)
    for classes, indices in zip(drawn.classes, drawn.indices, strict=True):
        assert len(set(classes.tolist())) == 3
        assert torch.equal(IMAGES.labels[indices], classes[:, None].expand(3, 4))
        assert len(set(indices.flatten().tolist())) == 12
    again = source().draw(4, 10)
    assert torch.equal(again.indices, drawn.indices)
    assert not torch.equal(source().draw(5, 10).indices, drawn.indices)
    images, further = drawn.images(IMAGES, source().config, 4)
    assert len(images) == 24
    assert len(further) == 0


def test_other_base_classes_are_asked_about_as_often():
    drawn = source("gidaris").draw(0, 10)
    further = IMAGES.labels[drawn.further].view(2, -1)
    assert further.shape == (2, 3 * 2)
    for classes, others in zip(drawn.classes, further, strict=True):
        assert not set(classes.tolist()) & set(others.tolist())


def test_steps_of_co_training_come_first():
    tadam = source("tadam", episode=dataclasses.replace(EPISODE, co_training=0.5, co_training_batch=7))
    draws = [tadam.draw(step, 40) for step in range(40)]
    assert all(len(drawn.further) == 7 and not len(drawn.classes) for drawn in draws[:2])
    assert all(not len(drawn.further) and len(drawn.classes) == 2 for drawn in draws[-20:])


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_steps_of_co_training_leave_the_task_encoder_as_it_was(optimizer):
    config = tiny_config(method="tadam", iterations=80, **{**QUICK, "optimizer": optimizer, "weight_decay": 0.1})
    run = prepare(config, IMAGES, None, torch.device("cpu"))
    conditioning = {name: weight for name, weight in run.model.own.named_parameters() if "auxiliary" not in name}
    before = {name: weight.clone() for name, weight in conditioning.items()}
    for _ in range(3):  # all in the first twentieth, in which there is nothing but co-training
        run.train_step(run.model.train())
    assert same(dict(conditioning), before)
    assert run.model.own.auxiliary.weight.grad is not None


MAML = {"architecture": NetworkConfig("c64f", 2), "pooling": "flatten"}


@pytest.mark.parametrize(("method", "changes"), [("pn", {}), ("tadam", {"tau": 1.0}), ("maml", MAML)])
def test_a_stopped_run_goes_on_to_the_same_weights(method, changes, tmp_path):
    config = tiny_config(method=method, iterations=4, **{**QUICK, **changes})
    whole = pretrain(config, IMAGES, None, tmp_path / "whole.safetensors", device="cpu")
    file, asked = tmp_path / "stopped.safetensors", iter([False, True])
    stopped = pretrain(config, IMAGES, None, file, device="cpu", stop=lambda: next(asked))
    assert not stopped.finished
    resumed = pretrain(config, IMAGES, None, file, device="cpu", resume=True)
    assert same(dict(resumed.tensors), dict(whole.tensors))
    loaded = load_base(file)
    assert loaded.method == method
    assert loaded.class_weights is None
    assert loaded.fingerprint == whole.fingerprint


def test_prototypical_networks_learn_colours(tmp_path):
    config = tiny_config(method="pn", iterations=25, **{**QUICK, "learning_rate": 3e-3})
    novel = coloured(5, 10, 16, seed=7, prefix="new")
    seen = []
    pretrain(dataclasses.replace(config, validation_tasks=20), IMAGES, novel, None, device="cpu", observe=seen.append)
    losses = [event.loss for event in seen if hasattr(event, "loss")]
    assert losses[-1] < losses[0] / 2


def validated(train_way: int, classes: int):
    """The first event and the validations of a run of MAML."""
    episode, seen = dataclasses.replace(EPISODE, train_way=train_way), []
    config = tiny_config(method="maml", iterations=2, **{**QUICK, **MAML, "episode": episode, "validation_tasks": 20})
    pretrain(config, IMAGES, coloured(classes, 10, 16, prefix="new"), None, device="cpu", observe=seen.append)
    return seen[0], [event for event in seen if hasattr(event, "interval")]


def test_maml_is_validated_with_as_many_classes_as_it_was_trained_on():
    for train_way, classes in ((3, 4), (6, 7)):
        _, results = validated(train_way, classes)
        assert {result.way for result in results} == {train_way}
    started, results = validated(5, 4)
    assert started.unvalidated == "news has 4 classes; maml trained with `train_way` 5 needs 5"
    assert not results


def test_validation_images_pass_a_frozen_network_once(tmp_path):
    pretrain(tiny_config(pooling="gap"), IMAGES, None, tmp_path / "first.safetensors", device="cpu")
    config = tiny_config(method="gidaris", start=str(tmp_path / "first.safetensors"), validation_tasks=20, **QUICK)
    validation = coloured(5, 10, 16, prefix="new")
    run = prepare(config, IMAGES, validation, torch.device("cpu"))
    phi = run.validation.phi(run.model.network)
    assert run.validation.phi(run.model.network) is phi
    trained = prepare(tiny_config(pooling="gap", validation_tasks=20), IMAGES, validation, torch.device("cpu"))
    assert trained.validation.phi(trained.model.network) is not trained.validation.phi(trained.model.network)


def test_the_second_stage_starts_from_the_first(tmp_path):
    first = pretrain(tiny_config(pooling="gap"), IMAGES, None, tmp_path / "first.safetensors", device="cpu")
    config = tiny_config(method="gidaris", start=str(tmp_path / "first.safetensors"), **QUICK)
    second = pretrain(config, IMAGES, None, tmp_path / "second.safetensors", device="cpu")
    assert same(first.network.state_dict(), second.network.state_dict())
    assert not torch.equal(first.class_weights, second.class_weights)
    assert second.method_tensors.keys() >= {"gamma", "keys", "average_scale"}


def test_features_of_a_frozen_network_are_computed_once_and_are_those_of_every_step(tmp_path):
    pretrain(tiny_config(pooling="gap"), IMAGES, None, tmp_path / "first.safetensors", device="cpu")
    unchanged = AugmentConfig(crop_padding=0, flip=False)
    config = tiny_config(method="gidaris", start=str(tmp_path / "first.safetensors"), augment=unchanged, **QUICK)
    once, every_step = (prepare(config, IMAGES, None, torch.device("cpu")) for _ in range(2))
    every_step.vectors = None  # as if images were augmented: the network sees those of every step
    assert once.vectors is not None
    for _ in range(3):
        fast, slow = once.train_step(once.model.train()), every_step.train_step(every_step.model.train())
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)
    augmented = dataclasses.replace(config, augment=AugmentConfig(flip=True))
    assert prepare(augmented, IMAGES, None, torch.device("cpu")).vectors is None
