import hashlib

import numpy as np
import pytest
import torch

from implanting.config import TaskConfig
from implanting.errors import ConfigError, DataError
from implanting.fewshot import Tasks, draw_queries, draw_tasks
from implanting.fewshot.tasks import mix
from toys import labelled

TEN_OF_THIRTY = labelled([number % 10 for number in range(300)])
"""Ten classes of thirty images each; image i is of class i mod 10."""


def draw(tasks: int = 10, seed: int = 0, way: int = 5, shot: int = 5, queries: int = 15) -> Tasks:
    return draw_tasks(TEN_OF_THIRTY, TaskConfig(way, shot, queries, tasks, seed))


def checksum(tasks: Tasks) -> str:
    parts = (tasks.classes, tasks.support, tasks.query)
    return hashlib.sha256(b"".join(part.contiguous().numpy().astype("<i8").tobytes() for part in parts)).hexdigest()


def test_tasks_of_seed_0_are_these_for_all_time():
    assert checksum(draw(100)) == "870823c00a196fa4632d0cdb00974126c462eddd6a1ab2db33ceca015399e7d8"


def test_splitmix64_of_its_published_sequence():
    # The first outputs of SplitMix64 with state 0: states 0, gamma, 2 gamma.
    states = np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert [int(value) for value in mix(states)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_a_task_is_the_same_however_many_are_drawn():
    assert checksum(draw(10)) == checksum(draw(1000)[:10])
    assert checksum(draw(1000)[600:610]) == checksum(draw(610)[600:])


def test_seeds_and_tasks_differ():
    assert len({checksum(draw(1, seed)) for seed in range(20)}) == 20
    tasks = draw(1000)
    assert len({checksum(tasks[number : number + 1]) for number in range(1000)}) == 1000


def test_supports_and_queries_are_disjoint_and_of_their_class():
    tasks = draw(50)
    assert tasks.classes.shape == (50, 5)
    assert tasks.support.shape == (50, 5, 5)
    assert tasks.query.shape == (50, 5, 15)
    for number in range(50):
        assert len(set(tasks.classes[number].tolist())) == 5
        for way, label in enumerate(tasks.classes[number].tolist()):
            images = tasks.support[number, way].tolist() + tasks.query[number, way].tolist()
            assert len(set(images)) == 20
            assert {image % 10 for image in images} == {label}


def test_uneven_classes():
    labels = [0] * 4 + [2] * 9 + [1] * 30
    tasks = draw_tasks(labelled(labels), TaskConfig(way=3, shot=1, queries=3, tasks=200))
    for way in range(3):
        images = torch.cat([tasks.support, tasks.query], 2)[:, way]
        assert torch.equal(torch.tensor(labels)[images], tasks.classes[:, way : way + 1].expand(-1, 4))
    assert set(torch.cat([tasks.support, tasks.query], 2).flatten().tolist()) == set(range(43))


def chi_square(counts: torch.Tensor) -> float:
    expected = counts.double().mean()
    return (((counts - expected) ** 2).sum() / expected).item()


def test_classes_and_images_are_uniform():
    tasks = draw(2000, way=2, shot=1, queries=1)
    # Chi-square of 9, 9, 299 and 299 degrees of freedom; a fair draw passes these bounds once in ten thousand.
    assert chi_square(torch.bincount(tasks.classes[:, 0], minlength=10)) < 34
    assert chi_square(torch.bincount(tasks.classes[:, 1], minlength=10)) < 34
    assert chi_square(torch.bincount(tasks.support.flatten(), minlength=300)) < 399
    assert chi_square(torch.bincount(tasks.query.flatten(), minlength=300)) < 399


def test_queries_alone_are_those_of_one_shot_tasks():
    tasks, with_supports = draw_queries(TEN_OF_THIRTY, TaskConfig(shot=5, queries=15, tasks=10)), draw(shot=1)
    assert torch.equal(tasks.query, with_supports.query)
    assert torch.equal(tasks.classes, with_supports.classes)
    assert tasks.support.shape == (10, 5, 0)


@pytest.mark.parametrize("labels", [[0] * 4 + [1] * 4, [0] * 4 + [1] * 9])
def test_queries_alone_may_be_all_images_of_a_class(labels):
    tasks = draw_queries(labelled(labels), TaskConfig(way=2, shot=1, queries=4, tasks=50))
    assert torch.equal(torch.tensor(labels)[tasks.query], tasks.classes[..., None].expand(-1, -1, 4))
    assert all(sorted(images) == [0, 1, 2, 3] for images in tasks.query[tasks.classes == 0].tolist())
    assert all(len(set(images)) == 4 for images in tasks.query[tasks.classes == 1].tolist())


def test_too_few_images_of_base_classes():
    with pytest.raises(DataError, match=r"base class 'class 0' has 30 images that were not trained on.*`hold_out` 31"):
        draw_queries(TEN_OF_THIRTY, TaskConfig(queries=31))


def test_too_few_classes():
    with pytest.raises(DataError, match="11 classes; found 10"):
        draw(way=11)


def test_too_few_images():
    with pytest.raises(DataError, match=r"'class 0' has 30 images.*needs 35.*add 5"):
        draw(shot=5, queries=30)
    assert draw(shot=5, queries=25).query.shape[2] == 25


@pytest.mark.parametrize("change", [{"way": 1}, {"shot": 0}, {"queries": 0}, {"tasks": 0}])
def test_impossible_tasks(change):
    with pytest.raises(ConfigError, match="must be"):
        draw(**change)
