"""The trial of processes and threads: what is tried, and what is chosen."""

import dataclasses

import pytest

from implanting.config import AugmentConfig, DataConfig, EpisodeConfig
from implanting.errors import ConfigError
from implanting.pretraining import RECIPES, Layout, layout, training_speed, with_method
from toys import tiny_config

CPU = RECIPES["cpu"].config


@pytest.mark.parametrize(
    ("cores", "tried"),
    [
        (1, [Layout(1, 1)]),
        (2, [Layout(1, 2), Layout(2, 1)]),
        (3, [Layout(1, 3), Layout(2, 1)]),
        (8, [Layout(1, 8), Layout(4, 2)]),  # 64 images are no more than four times 16
    ],
)
def test_all_cores_as_threads_of_one_process_or_shared_by_several(cores, tried):
    assert layout.layouts(CPU, cores) == tried


def test_several_processes_only_where_the_method_and_its_batch_allow_them():
    assert layout.layouts(dataclasses.replace(CPU, batch_size=30), 2) == [Layout(1, 2)]
    assert layout.layouts(with_method(CPU, "tadam"), 2) == [Layout(1, 2)]
    assert layout.layouts(with_method(CPU, "pn"), 2) == [Layout(1, 2)]
    assert layout.layouts(with_method(CPU, "maml"), 2) == [Layout(1, 2), Layout(2, 1)]


@pytest.mark.parametrize("faster", [0, 1])
def test_the_faster_one_is_chosen(monkeypatch, faster):
    possible = layout.layouts(CPU, 2)
    speeds = {each: 100.0 + (place == faster) for place, each in enumerate(possible)}
    monkeypatch.setattr(layout, "cores", lambda: 2)
    monkeypatch.setattr(layout, "training_speed", lambda _config, each: speeds[each])
    assert layout.fastest_layout(CPU) == (possible[faster], speeds)


def test_episodes_are_shared_whatever_the_size_of_a_batch():
    episodes = dataclasses.replace(with_method(CPU, "pn"), episode=EpisodeConfig(episodes=3))
    assert layout.layouts(episodes, 4) == [Layout(1, 4), Layout(3, 1)]


def test_large_episodes_and_crops_fit_the_noise():
    episode = EpisodeConfig(train_way=21, train_shot=2, train_queries=60)
    config = tiny_config(method="pn", pooling="gap", episode=episode, augment=AugmentConfig(crop_padding=40))
    assert training_speed(config, Layout(1, 1), steps=4) > 0


@pytest.mark.parametrize("processes", [1, 2])
def test_a_trial_that_fails_says_why(processes):
    too_deep = tiny_config(data=DataConfig(image_size=8))
    with pytest.raises(ConfigError, match=r"the trial of \d process.* of 1 thread failed: an image of 8 x 8 px"):
        training_speed(too_deep, Layout(processes, 1))
