"""The trial of processes and threads: what is tried, and what is chosen."""

import dataclasses

import pytest

from implanting.config import EpisodeConfig
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


def test_a_trial_that_fails_says_why():
    too_many_supports = EpisodeConfig(train_shot=100)
    with pytest.raises(ConfigError, match=r"the trial of 1 process of 2 threads failed .*100.*: name a number"):
        training_speed(tiny_config(episode=too_many_supports, method="pn", pooling="gap"), Layout(1, 2))
