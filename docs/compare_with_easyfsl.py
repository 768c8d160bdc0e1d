"""Prototypical networks and SimpleShot against EasyFSL 1.5.0 on the same features and tasks.

    pip install --no-deps easyfsl==1.5.0 && python docs/compare_with_easyfsl.py

EasyFSL's `__init__` files load torchvision, which this project does without, so its two modules are loaded directly.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from implanting.baselines.prototypical_networks import PrototypicalMethod
from implanting.baselines.simple_shot import SimpleShotMethod
from implanting.config import TaskConfig
from implanting.datasets import ImageSet
from implanting.fewshot import Tasks, draw_tasks

CLASSES, IMAGES, DIM, TASKS = 20, 100, 64, 1000


def load_easyfsl() -> None:
    """Empty packages in the place of EasyFSL's own, from which its modules can be imported."""
    spec = find_spec("easyfsl")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("EasyFSL is not installed: pip install --no-deps easyfsl==1.5.0")
    root = Path(spec.submodule_search_locations[0])
    for name, folder in (("easyfsl", root), ("easyfsl.methods", root / "methods")):
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package


def answers_of(classifier: nn.Module, vectors: torch.Tensor, tasks: Tasks) -> torch.Tensor:
    """EasyFSL's answers, task by task."""
    given = []
    for classes, support, query in zip(tasks.classes, tasks.support, tasks.query, strict=True):
        labels = torch.arange(len(classes)).repeat_interleave(support.shape[1])
        classifier.process_support_set(vectors[support.flatten()], labels)
        given.append(classes[classifier(vectors[query.flatten()]).argmax(-1)].view(query.shape))
    return torch.stack(given)


def main() -> None:
    """Print in how many answers they agree."""
    load_easyfsl()
    from easyfsl.methods.prototypical_networks import PrototypicalNetworks
    from easyfsl.methods.simple_shot import SimpleShot

    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(CLASSES).repeat(IMAGES)
    names = tuple(str(number) for number in range(CLASSES))
    images = ImageSet(torch.zeros(len(labels), 1, 1, 3, dtype=torch.uint8), labels, names, "random features", "none")
    centres = torch.randn(CLASSES, DIM, generator=generator)
    vectors = 0.5 * centres[labels] + torch.randn(len(labels), DIM, generator=generator) + 0.3
    mean = vectors.mean(0)
    tasks = draw_tasks(images, TaskConfig(way=5, shot=5, queries=15, tasks=TASKS))
    centred = {"feature_centering": mean, "feature_normalization": 2.0}
    pairs = {
        "prototypical networks": (PrototypicalMethod(vectors, "euclidean"), PrototypicalNetworks(nn.Identity())),
        "SimpleShot (CL2N, Euclidean as in its paper)": (
            SimpleShotMethod(vectors, mean),
            PrototypicalNetworks(nn.Identity(), **centred),
        ),
        "SimpleShot (EasyFSL's class, which takes the cosine)": (
            SimpleShotMethod(vectors, mean),
            SimpleShot(nn.Identity(), **centred),
        ),
    }
    for title, (ours, theirs) in pairs.items():
        truth, given = ours(tasks)
        their = answers_of(theirs, vectors, tasks)
        right = [100 * float((answers == truth).float().mean()) for answers in (given, their)]
        same = int((given == their).sum())
        accuracies = f"accuracy {right[0]:.2f} and {right[1]:.2f} %"
        print(f"{title}: {same} of {given.numel()} answers equal; {accuracies}")  # noqa: T201 (a script)


if __name__ == "__main__":
    main()
