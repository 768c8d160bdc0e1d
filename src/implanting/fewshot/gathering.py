"""Classify the queries of many tasks by prototypes; gathering dominates the cost, so the smaller operand is gathered.

Every query, a map of d-dimensional locations, is multiplied with the vectors of its task. Either the queries of one
class in one task are gathered and multiplied with the task's vectors (`by_task`), or the vectors of all tasks that
contain an image are gathered and multiplied with that image (`by_image`). The latter is used if maps have more
locations than tasks have classes.

We multiply only the differences of the vectors from the last one: softmax does not change, and the last product is 0.
Gathering reuses one small buffer, which stays in the processor's cache; touching fresh memory costs more than filling
it. For the same reason, the scores of a run of groups or images become answers before the next run starts.
"""

from functools import reduce

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from implanting.fewshot.tasks import Tasks
from implanting.runtime import in_threads

SCORES = 2**18
"""Scores that each thread holds at a time, 1 MiB."""

Directions = Float[Tensor, "image location dim"]
"""Locations of unit length."""
Vectors = Float[Tensor, "task way dim"]
"""Prototypes of length tau."""
Answers = Int[Tensor, "task way_query"]
"""The answer to each query, as an index into its task's classes."""


def answers_of(directions: Directions, tasks: Tasks, vectors: Vectors) -> Answers:
    """Return the most probable class of each query: softmax at each location, averaged over locations."""
    gather = by_image if vectors_are_smaller(directions.shape[1], vectors.shape[1]) else by_task
    return gather(directions, tasks, vectors)


def vectors_are_smaller(locations: int, way: int) -> bool:
    """Whether to gather vectors rather than queries: only if they are half as large, as the products are smaller."""
    return locations >= 2 * way


def by_task(directions: Directions, tasks: Tasks, vectors: Vectors) -> Answers:
    """Answer task by task; the groups of one class are processed consecutively, because they share images."""
    way, queries = tasks.query.shape[1:]
    differences = (vectors[:, :-1] - vectors[:, -1:]).unbind()
    images = tasks.query.flatten(0, 1).to(directions.device).unbind()  # unbind once: indexing in the loop costs more
    flat = directions.flatten(1)  # gathered faster than with three axes

    @torch.inference_mode()
    def answer(groups: Int[Tensor, " group"]) -> Int[Tensor, "group query"]:
        gathered = flat.new_empty(queries, flat.shape[1])
        rows = gathered.view(-1, directions.shape[2]).T
        scores = directions.new_zeros(len(groups), way, rows.shape[1])
        for group, products in zip(groups.tolist(), scores[:, :-1].unbind(), strict=True):
            torch.index_select(flat, 0, images[group], out=gathered)
            torch.mm(differences[group // way], rows, out=products)
        probability = scores.unflatten(2, (queries, -1)).softmax(1)
        return reduce(torch.add, probability.unbind(3)).max(1).indices  # sum() is slower over so short an axis

    order = tasks.classes.flatten().argsort()
    runs = order.split(max(1, SCORES // (way * queries * directions.shape[1])))
    answers = torch.empty(len(order), queries, dtype=torch.int64)
    answers[order] = torch.cat(in_threads(answer, runs)).cpu()
    return answers.view(len(tasks), -1)


def by_image(directions: Directions, tasks: Tasks, vectors: Vectors) -> Answers:
    """Answer image by image, each for all tasks that contain it."""
    way, locations = vectors.shape[1], directions.shape[1]
    flat = (vectors[:, :-1] - vectors[:, -1:]).flatten(1)
    sorted_images, order = tasks.query.flatten().sort(stable=True)
    images, counts = sorted_images.unique_consecutive(return_counts=True)
    asking = (order // tasks.query[0].numel()).to(directions.device)

    @torch.inference_mode()
    def answer(run: tuple[list[int], list[int], Tensor]) -> Int[Tensor, " query"]:
        images, counts, asking = run
        gathered = flat.new_empty(max(counts), flat.shape[1])
        products = flat.new_empty(locations, len(asking), way - 1)
        for image, some, output in zip(images, asking.split(counts), products.split(counts, dim=1), strict=True):
            rows = torch.index_select(flat, 0, some, out=gathered[: len(some)]).view(-1, directions.shape[2])
            torch.mm(directions[image], rows.T, out=output.flatten(1))
        scores = F.pad(products.permute(2, 1, 0), (0, 0, 0, 0, 0, 1))
        return scores.softmax(0).mean(2).max(0).indices

    together = max(1, SCORES * len(images) // (len(order) * way * locations))
    lists = [counted.tolist() for counted in counts.split(together)]
    some_asking = asking.split([sum(counted) for counted in lists])
    runs = [
        (some.tolist(), counted, asked)
        for some, counted, asked in zip(images.split(together), lists, some_asking, strict=True)
    ]
    answers = torch.empty_like(order)
    answers[order] = torch.cat(in_threads(answer, runs)).cpu()
    return answers.view(len(tasks), -1)
