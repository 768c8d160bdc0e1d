import numpy as np
import pytest
import torch

from implanting.config import TaskConfig
from implanting.dense_classification import PrototypeClassifier
from implanting.fewshot import PrototypeMethod, draw_tasks, evaluate_tasks
from toys import coloured, seeded


def spread_features(images):
    return images.images.float().mean((1, 2))[:, None, :] + torch.randn(32, 1, 3, generator=seeded()) * 30


def test_accuracy_and_confusion_are_counted_from_the_answers():
    images = coloured(classes=4, per_class=8)
    config = TaskConfig(way=3, shot=2, queries=4, tasks=20)
    tasks = draw_tasks(images, config)
    method = PrototypeMethod(spread_features(images), PrototypeClassifier("gap", "gap", 1.0), tasks_at_once=7)
    result = evaluate_tasks(method, tasks, config, classes=4)
    confusion = np.zeros((4, 4), dtype=int)
    for number, (truth, given) in enumerate(zip(*(part.tolist() for part in method(tasks)), strict=True)):
        assert truth == [[label] * 4 for label in tasks.classes[number].tolist()]
        pairs = [
            pair
            for true_row, given_row in zip(truth, given, strict=True)
            for pair in zip(true_row, given_row, strict=True)
        ]
        assert result.per_task[number] == pytest.approx(sum(true == answer for true, answer in pairs) / 12)
        for true, answer in pairs:
            confusion[true, answer] += 1
    assert result.confusion.tolist() == confusion.tolist()
    assert result.per_class.tolist() == pytest.approx([confusion[c, c] / confusion[c].sum() for c in range(4)])
    assert len(set(result.per_task.tolist())) > 1


@pytest.mark.parametrize(("queries", "chunks"), [(5, [4, 4, 2]), (97, [2, 2, 2, 2, 2])])
def test_tasks_of_more_images_go_through_fewer_at_once(queries, chunks):
    images = coloured(classes=4, per_class=100)
    config = TaskConfig(way=4, shot=3, queries=queries, tasks=10)
    method = PrototypeMethod(images.images.float().mean((1, 2))[:, None], PrototypeClassifier("gap", "gap", 1.0))
    seen = []

    class Watched:
        tasks_at_once = 4

        def __call__(self, tasks):
            seen.append(len(tasks))
            return method(tasks)

    tasks = draw_tasks(images, config)
    result = evaluate_tasks(Watched(), tasks, config, classes=4)
    assert seen == chunks
    assert result.per_task.tolist() == evaluate_tasks(method, tasks, config, classes=4).per_task.tolist()
