import dataclasses
import math
import re

import numpy as np
import pytest
import torch

from implanting.config import TaskConfig
from implanting.errors import ConfigError, DataError
from implanting.fewshot import draw_tasks
from implanting.reproduce import figure3
from implanting.reproduce.figure3 import both_right, dense_better, pick, pooling_better
from rounding import NEAR, assert_near
from toys import coloured, toy_base

TASKS = TaskConfig(way=3, shot=2, queries=5, tasks=4, seed=3)
POOLING, DENSE = (toy_base(classes=4, pooling=pooling, seed=seed) for seed, pooling in enumerate(("gap", "dense")))
NOVEL = coloured(classes=5, per_class=8, size=32, prefix="novel")
BASE_IMAGES = coloured(classes=4, per_class=5, size=32, seed=7)


def cosine(first, second):
    return (first @ second / first.norm() / second.norm()).item()


def probabilities_by_hand(base, image, vectors) -> list[float]:
    """Softmax over classes at the one pooled location, or averaged over all."""
    phi = base.embed(image[None])[0]
    vectors_seen = phi if base.description.config.pooling == "dense" else phi.mean(0, keepdim=True)
    shares = []
    for location in vectors_seen:
        powers = [math.exp(base.tau * cosine(location, vector)) for vector in vectors]
        shares.append([power / sum(powers) for power in powers])
    return [sum(column) / len(shares) for column in zip(*shares, strict=True)]


def test_rules_take_right_and_wrong_as_they_say():
    pooling, dense = torch.tensor([0.5, 0.3, -0.2, -0.1, 0.9]), torch.tensor([0.2, -0.4, 0.6, -0.1, 0.8])
    nan = torch.nan
    torch.testing.assert_close(both_right(pooling, dense), torch.tensor([0.2, nan, nan, nan, 0.8]), equal_nan=True)
    torch.testing.assert_close(dense_better(pooling, dense), torch.tensor([nan, nan, 0.8, nan, nan]), equal_nan=True)
    torch.testing.assert_close(pooling_better(pooling, dense), torch.tensor([nan, 0.7, nan, nan, nan]), equal_nan=True)


def test_the_best_of_different_classes_are_picked():
    worth = torch.tensor([0.1, torch.nan, 0.9, 0.8, 0.5])
    classes = torch.tensor([0, 0, 1, 1, 2])
    assert pick(worth, classes, 2) == [2, 4]
    assert pick(worth, classes, 9) == [2, 4, 0]
    assert pick(torch.full((2,), torch.nan), classes[:2], 2) == []


@pytest.fixture(scope="module")
def found():
    return figure3(POOLING, DENSE, NOVEL, BASE_IMAGES, TASKS)


def test_rows_come_as_in_the_paper(found):
    assert list(found.rows) == ["base, both right", "novel, both right", "novel, dense better", "novel, pooling better"]
    for row in found.rows.values():
        assert len({example.name for example in row}) == len(row) <= 2


def test_examples_are_what_their_row_says(found):
    for name, row in found.rows.items():
        for example in row:
            right = example.pooling.answer == example.name, example.dense.answer == example.name
            assert right == (not name.endswith("dense better"), not name.endswith("pooling better"))
    assert any(found.rows.values())


def test_base_examples_are_scored_by_the_class_weights(found):
    assert found.rows["base, both right"]
    for example in found.rows["base, both right"]:
        truth = BASE_IMAGES.class_names.index(example.name)
        image = torch.from_numpy(example.image)
        for base, sight in ((POOLING, example.pooling), (DENSE, example.dense)):
            weights = base.classifier.class_weights
            expected = probabilities_by_hand(base, image, weights)
            assert sight.probability == pytest.approx(expected[truth], abs=NEAR)
            locations = base.embed(image[None])[0]
            by_hand = [cosine(location, weights[truth]) for location in locations]
            assert_near(sight.map.flatten(), by_hand, scale=1)


def scored_by_prototypes(base, image, sight, support, truth) -> bool:
    """Whether probability and map are those of a task with these supports, as computed one by one."""
    vectors = [base.embed(NOVEL.images[images]).mean(1).mean(0) for images in support]
    by_hand = [cosine(location, vectors[truth]) for location in base.embed(image[None])[0]]
    probability = probabilities_by_hand(base, image, vectors)[truth]
    return np.allclose([sight.probability, *sight.map.flatten()], [probability, *by_hand], atol=NEAR)


def test_novel_examples_are_scored_by_the_prototypes_of_a_task_that_asks_for_them(found):
    examples = [example for name, row in found.rows.items() if name.startswith("novel") for example in row]
    assert examples
    tasks = draw_tasks(NOVEL, TASKS)
    for example in examples:
        image = torch.from_numpy(example.image)
        (number,) = [place for place, other in enumerate(NOVEL.images) if torch.equal(image, other)]
        assert any(
            scored_by_prototypes(POOLING, image, example.pooling, tasks.support[task], truth)
            and scored_by_prototypes(DENSE, image, example.dense, tasks.support[task], truth)
            for task, truth, _ in (tasks.query == number).nonzero().tolist()
        )


def test_no_better_example_was_passed_over(found):
    """The rule for base images anew, image by image."""
    margins = []
    for image, label in zip(BASE_IMAGES.images, BASE_IMAGES.labels.tolist(), strict=True):
        both = []
        for base in (POOLING, DENSE):
            given = probabilities_by_hand(base, image, base.classifier.class_weights)
            both.append(given[label] - max(given[:label] + given[label + 1 :]))
        margins.append(min(both))
    best = BASE_IMAGES.images[int(np.argmax(margins))].numpy()
    np.testing.assert_array_equal(found.rows["base, both right"][0].image, best)


def test_the_caption_tells_the_rule_and_where_examples_are_from(found):
    assert "picked by a rule" in found.caption
    assert re.search(r"60 queries of tasks 0 to 3 \(seed 3, 3-way 2-shot\) of novels", found.caption)
    assert "20 images of colours" in found.caption


def test_the_same_seed_gives_the_same_examples(found):
    again = figure3(POOLING, DENSE, NOVEL, BASE_IMAGES, TASKS)
    for name, row in found.rows.items():
        assert [example.name for example in row] == [example.name for example in again.rows[name]]


def test_without_base_images_their_row_is_left_out():
    rows = figure3(POOLING, DENSE, NOVEL, tasks=TASKS).rows
    assert list(rows) == ["novel, both right", "novel, dense better", "novel, pooling better"]


def test_networks_of_the_wrong_kind_are_refused():
    with pytest.raises(ConfigError, match="these were trained with dense and gap"):
        figure3(DENSE, POOLING, NOVEL, tasks=TASKS)


def test_base_images_of_other_classes_are_refused():
    others = dataclasses.replace(BASE_IMAGES, class_names=("a", "b", "c", "d"))
    with pytest.raises(ConfigError, match="not those of colours"):
        figure3(POOLING, DENSE, NOVEL, others, TASKS)


def test_too_few_images_are_named():
    with pytest.raises(DataError, match="5-shot with 5 queries needs 10"):
        figure3(POOLING, DENSE, NOVEL, tasks=dataclasses.replace(TASKS, shot=5))
