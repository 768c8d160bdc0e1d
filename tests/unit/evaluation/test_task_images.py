import dataclasses

import pytest
import torch

from implanting.config import InferenceConfig, TaskConfig
from implanting.errors import ConfigError, DataError
from implanting.evaluation import Approach, TaskImages, Trial
from implanting.evaluation import task_images as module
from implanting.fewshot import draw_queries, draw_tasks
from toys import coloured

NOVEL, BASE = coloured(classes=4, per_class=8, seed=1), coloured(classes=3, per_class=6)
CONFIG = TaskConfig(way=3, shot=2, queries=4, tasks=10)


def trial(classes, config=CONFIG):
    return Trial(Approach(InferenceConfig(), None, classes), config)


def same(first, second):
    parts = ("numbers", "classes", "support", "query")
    return first.images == second.images and all(torch.equal(getattr(first, p), getattr(second, p)) for p in parts)


def test_tasks_are_those_of_the_images_and_the_settings():
    images = TaskImages(NOVEL, BASE)
    assert same(images.novel_tasks(CONFIG), draw_tasks(NOVEL, CONFIG))
    assert same(images.base_tasks(CONFIG), draw_queries(BASE, CONFIG))
    for classes, tested, counted in (("novel", [NOVEL], NOVEL), ("base", [BASE], BASE), ("both", [BASE, NOVEL], NOVEL)):
        assert images.tested(classes) == tested
        assert images.tasks_of(trial(classes)).images == counted.fingerprint


def test_tasks_are_drawn_once_and_fewer_are_the_first_of_more(monkeypatch):
    drawn = []

    def watched(draw):
        def count(image_set, config):
            drawn.append(config)
            return draw(image_set, config)

        return count

    monkeypatch.setattr(module, "draw_tasks", watched(draw_tasks))
    monkeypatch.setattr(module, "draw_queries", watched(draw_queries))
    images, fewer = TaskImages(NOVEL, BASE), dataclasses.replace(CONFIG, tasks=3)
    for _ in range(2):
        assert len(images.novel_tasks(CONFIG)) == 10
        assert same(images.novel_tasks(fewer), draw_tasks(NOVEL, fewer))
        assert same(images.base_tasks(fewer), images.base_tasks(dataclasses.replace(fewer, shot=1)))
    assert drawn == [CONFIG, dataclasses.replace(fewer, shot=1)]
    assert same(images.novel_tasks(dataclasses.replace(CONFIG, tasks=12))[:10], images.novel_tasks(CONFIG))
    assert len(drawn) == 3


@pytest.mark.parametrize(
    ("classes", "config", "said"),
    [
        ("novel", {"shot": 5}, "needs 9"),
        ("base", {"queries": 7}, "7 queries"),
        ("both", {"queries": 7, "shot": 1}, "7 queries"),
        ("both", {"shot": 5}, "needs 9"),
    ],
)
def test_drawing_says_where_there_are_too_few_images(classes, config, said):
    with pytest.raises(DataError, match=said):
        TaskImages(NOVEL, BASE).draw(trial(classes, dataclasses.replace(CONFIG, **config)))
    TaskImages(NOVEL, BASE).draw(trial(classes))


def test_images_that_are_not_there_are_asked_for():
    with pytest.raises(ConfigError, match="needs image_set"):
        TaskImages(None, BASE).draw(trial("both"))
    with pytest.raises(ConfigError, match="needs base_images"):
        TaskImages(NOVEL).draw(trial("both"))
