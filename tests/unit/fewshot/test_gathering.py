"""Both ways to gather against a loop over queries."""

import pytest
import torch
import torch.nn.functional as F

from implanting.config import TaskConfig
from implanting.fewshot import draw_tasks, gathering
from implanting.fewshot.gathering import answers_of, by_image, by_task
from toys import labelled, seeded

IMAGES = labelled([0] * 9 + [1, 2, 3] * 12)
TASKS = draw_tasks(IMAGES, TaskConfig(way=3, shot=2, queries=5, tasks=7))


def problem(locations: int) -> tuple[torch.Tensor, torch.Tensor]:
    directions = F.normalize(torch.randn(len(IMAGES), locations, 6, generator=seeded(1)), dim=-1)
    return directions, 10 * F.normalize(torch.randn(7, 3, 6, generator=seeded(2)), dim=-1)


def one_by_one(directions: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    answers = [
        (directions[image] @ vectors[task].T).softmax(-1).mean(0).argmax()
        for task in range(len(TASKS))
        for image in TASKS.query[task].flatten()
    ]
    return torch.stack(answers).view(len(TASKS), -1)


@pytest.mark.parametrize("scores", [1, 200, 2**18], ids=["a group or an image a run", "short runs", "one run"])
@pytest.mark.parametrize("locations", [1, 4, 9])
@pytest.mark.parametrize("way_to_gather", [by_task, by_image, answers_of])
def test_answers_are_those_of_a_loop_over_queries(way_to_gather, locations, scores, monkeypatch):
    monkeypatch.setattr(gathering, "SCORES", scores)
    directions, vectors = problem(locations)
    answers = way_to_gather(directions, TASKS, vectors)
    assert torch.equal(answers, one_by_one(directions, vectors))
    assert len(answers.unique()) == 3


@pytest.mark.parametrize("way_to_gather", [by_task, by_image])
def test_answers_do_not_depend_on_the_number_of_threads(way_to_gather, monkeypatch, two_threads):
    monkeypatch.setattr(gathering, "SCORES", 200)
    directions, vectors = problem(9)
    answers = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        answers.append(way_to_gather(directions, TASKS, vectors))
    assert torch.equal(answers[0], answers[1])
    assert torch.equal(answers[0], answers[2])
