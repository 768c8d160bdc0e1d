"""How many wrong labels `check` finds, and what `suggest` gains over random photos: the tables of check-and-suggest.md.

    python docs/compare_advice.py FOLDER [--classes NAMES.json:test | --every-second 1] [--queries 13]

Every photo is embedded once, mirrored too. Each draw takes ten classes and is learned, checked and suggested from by
the functions that the commands call. Wrong labels are drawn among the other nine classes.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from implanting.advice import check, choose, examples_of
from implanting.base import BaseNetwork, load_base
from implanting.classifier import ImageClassifier, Learned
from implanting.classifier.learned import read_views
from implanting.classifier.learning import learn_from_readings
from implanting.images import load

WAY = 10
WRONG = 0.05
LABELLED = 2
"""Photos per class that are labelled before any is suggested."""
COUNTS = (20, 50, 100)


def embedded(base: BaseNetwork, folder: Path) -> tuple[list[str], list[torch.Tensor]]:
    """Return the names of the classes, and the readings [photo view dim] of the photos of each."""
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    size, readings = min(base.preprocessing.image_size), []
    for name in names:
        photos = np.stack([load(path, size) for path in sorted((folder / name).iterdir())])
        readings.append(torch.cat([read_views(base, batch, 2) for batch in torch.from_numpy(photos).split(32)]))
    return names, readings


def learned_from(base: BaseNetwork, supports: torch.Tensor, labels: torch.Tensor) -> Learned:
    """Learn what `fit` learns from these readings."""
    views = base.usage.head.support_views(int(labels.bincount().median()))
    return learn_from_readings(base, min(base.preprocessing.image_size), supports[:, :views], labels)


def drawn(classes: list[torch.Tensor], seed: int) -> tuple[list[torch.Tensor], torch.Generator]:
    """Draw ten classes and shuffle the photos of each."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(classes), generator=generator)[:WAY].tolist()
    return [classes[one][torch.randperm(len(classes[one]), generator=generator)] for one in chosen], generator


def found_and_listed(base: BaseNetwork, classes: list[torch.Tensor], shot: int, seed: int) -> tuple[float, float]:
    """Plant wrong labels; return the share of them that is listed, and the length of the list."""
    photos, generator = drawn(classes, seed)
    labels = torch.arange(WAY).repeat_interleave(shot)
    wrong = torch.randperm(len(labels), generator=generator)[: int(WRONG * len(labels))]
    labels[wrong] = (labels[wrong] + torch.randint(1, WAY, (len(wrong),), generator=generator)) % WAY
    classifier = ImageClassifier(base)
    classifier.learned_ = learned_from(base, torch.cat([some[:shot] for some in photos]), labels)
    listed = {one.example for one in check(examples_of(classifier)).mislabelled}
    return len(listed & set(wrong.tolist())) / len(wrong), len(listed)


def accuracies(base: BaseNetwork, classes: list[torch.Tensor], queries: int, seed: int) -> list[float]:
    """Return the accuracy at the start, then for each count that with suggested and that with random photos."""
    photos, generator = drawn(classes, seed)
    supports = torch.cat([some[:LABELLED] for some in photos])
    asked = torch.cat([some[-queries:, 0] for some in photos]).float()
    pool = torch.cat([some[LABELLED:-queries] for some in photos])
    labels, truth = torch.arange(WAY).repeat_interleave(LABELLED), torch.arange(WAY).repeat_interleave(queries)
    pool_labels = torch.cat([torch.full((len(some) - LABELLED - queries,), one) for one, some in enumerate(photos)])

    def accuracy(taken: torch.Tensor) -> float:
        learned = learned_from(base, torch.cat([supports, pool[taken]]), torch.cat([labels, pool_labels[taken]]))
        return (learned.answers_by_readings(learned.head, asked)[0].argmax(1) == truth).double().mean().item()

    start = learned_from(base, supports, labels)
    readings = pool[:, 0].float()
    given = start.answers_by_readings(start.head, readings)[0].numpy()
    figures = [accuracy(torch.arange(0))]
    for count in COUNTS:
        suggested = choose(given, F.normalize(readings, dim=1).numpy(), count)
        figures.append(accuracy(torch.tensor(suggested)))
        figures.append(accuracy(torch.randperm(len(pool), generator=generator)[:count]))
    return figures


def with_interval(values: np.ndarray, digits: int = 1) -> str:
    """Format a mean with its 95 % interval over draws."""
    return f"{values.mean():.{digits}f} ± {1.96 * values.std(ddof=1) / math.sqrt(len(values)):.{digits}f}"


def main() -> None:
    """Print a line of figures for each number of photos."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--base", default="efficientnet-lite0")
    parser.add_argument("--classes", help="FILE.json:LIST, the names of the classes to use")
    parser.add_argument("--every-second", type=int, choices=(0, 1), help="every second class, from this one on")
    parser.add_argument("--shots", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument("--queries", type=int, default=13)
    parser.add_argument("--draws", type=int, default=100, help="of planted labels")
    parser.add_argument("--suggested-draws", type=int, default=60)
    asked = parser.parse_args()
    base = load_base(asked.base)
    names, readings = embedded(base, asked.folder)
    if asked.classes:
        file, _, listed = asked.classes.rpartition(":")
        readings = [readings[names.index(name)] for name in json.loads(Path(file).read_text())[listed]]
    elif asked.every_second is not None:
        readings = readings[asked.every_second :: 2]
    for shot in asked.shots:
        rows = np.array([found_and_listed(base, readings, shot, seed) for seed in range(asked.draws)])
        wrong, pooled = int(WRONG * WAY * shot), rows[:, 0].mean() * int(WRONG * WAY * shot) / rows[:, 1].mean()
        say(
            f"check, {shot} photos, {wrong} wrong: found {with_interval(100 * rows[:, 0])} %, listed "
            f"{with_interval(rows[:, 1], 2)}, of which wrong {100 * pooled:.0f} % ({asked.draws} draws)"
        )
    rows = 100 * np.array([accuracies(base, readings, asked.queries, seed) for seed in range(asked.suggested_draws)])
    say(f"suggest, {len(readings)} classes: start {with_interval(rows[:, 0])} ({asked.suggested_draws} draws)")
    for place, count in enumerate(COUNTS):
        suggested, random = rows[:, 1 + 2 * place], rows[:, 2 + 2 * place]
        say(
            f"suggest, {count} labels: suggested {with_interval(suggested)}, random {with_interval(random)}, "
            f"gain {with_interval(suggested - random, 2)}"
        )


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
