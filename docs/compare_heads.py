"""The default classifier beside logistic regression on many draws of a folder's classes: the tables of decision 14.

    python docs/compare_heads.py FOLDER [--classes NAMES.json:test | --every-second 1] [--shots 1 2 5] [--draws 200]

Every photo is embedded once, mirrored too; then each draw of ten classes is learned and answered from readings, by the
code that `FewShotClassifier` runs. The rival is logistic regression on the unit first reading (the rooted mean; of two
networks side by side, both), C of 0.1 to 1000 by cross-validation, and C = 100. Classes that are not drawn are
strangers.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch

from implanting.base import BaseNetwork, load_base
from implanting.classifier import Learned, learn_from_readings
from implanting.classifier.learned import read_views
from implanting.fewshot import calibration_error, logistic_regression
from implanting.images import load

STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)


def embedded(base: BaseNetwork, folder: Path) -> tuple[list[str], list[torch.Tensor]]:
    """The names of the classes, and the readings [photo view dim] of each one's photos."""
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    size, readings = min(base.preprocessing.image_size), []
    for name in names:
        photos = np.stack([load(path, size) for path in sorted((folder / name).iterdir())])
        readings.append(torch.cat([read_views(base, batch, 2) for batch in torch.from_numpy(photos).split(32)]))
    return names, readings


def learned_from(base: BaseNetwork, supports: torch.Tensor, labels: torch.Tensor) -> Learned:
    """What `fit` learns from these readings."""
    views = base.usage.head.support_views(int(labels.bincount().median()))
    return learn_from_readings(base, min(base.preprocessing.image_size), supports[:, :views], labels)


def pooled(base: BaseNetwork, vectors: torch.Tensor) -> torch.Tensor:
    """The unit first reading of each network, joined to one unit vector."""
    members = len(getattr(base.network, "networks", [base.network]))
    readings = vectors.split(list(base.reading_dims), dim=1)
    return torch.cat(readings[:: len(readings) // members], dim=1) / math.sqrt(members)


def strength_of(features: torch.Tensor, labels: torch.Tensor, shot: int) -> float:
    """C by cross-validation, the smallest of the best; 100 with one image per class."""
    if shot == 1:
        return 100.0
    folds = min(5, shot)
    turn = torch.arange(len(labels)) % shot * folds // shot
    right = torch.zeros(len(STRENGTHS))
    for place, strength in enumerate(STRENGTHS):
        for fold in range(folds):
            kept = turn != fold
            rival = logistic_regression(features[None, kept], labels[None, kept], 1 / strength, tolerance=1e-3)
            right[place] += (rival.scores(features[None, ~kept])[0].argmax(1) == labels[~kept]).sum()
    return STRENGTHS[int(right.argmax())]


def draw(
    base: BaseNetwork, classes: list[torch.Tensor], way: int, shot: int, queries: int, seed: int
) -> tuple[dict[str, float], torch.Tensor]:
    """The figures of one draw, and the probabilities that were given to its queries."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(classes), generator=generator).tolist()
    shuffled = [classes[number][torch.randperm(len(classes[number]), generator=generator)] for number in order]
    supports = torch.cat([photos[:shot] for photos in shuffled[:way]])
    asked = torch.cat([photos[shot : shot + queries, 0] for photos in shuffled[:way]]).float()
    strangers = torch.cat([photos[:, 0] for photos in shuffled[way:]] or [supports[:0, 0]]).float()
    labels, truth = torch.arange(way).repeat_interleave(shot), torch.arange(way).repeat_interleave(queries)
    learned = learned_from(base, supports, labels)
    given, known = learned.answers_by_readings(learned.head, asked)
    _, strange = learned.answers_by_readings(learned.head, strangers)
    figures = {"ours": (given.argmax(1) == truth).double().mean().item()}
    features = pooled(base, supports[:, 0].float())
    chosen = strength_of(features, labels, shot)
    for name, strength in (("CV", chosen), ("C = 100", 100.0)):
        rival = logistic_regression(features[None], labels[None], 1 / strength)
        said = rival.scores(pooled(base, asked)[None])[0]
        figures[f"over {name}"] = figures["ours"] - (said.argmax(1) == truth).double().mean().item()
    for share in (0.05, 0.1):
        threshold = learned.calibration.threshold(share)
        figures[f"known refused at {share:.0%}"] = (known > threshold).double().mean().item()
        figures[f"strangers refused at {share:.0%}"] = (strange > threshold).double().mean().item()
    figures["strangers caught at 5% lost"] = (strange > known.quantile(0.95)).double().mean().item()
    said = rival.scores(pooled(base, torch.cat([asked, strangers]))[None])[0].softmax(1).amax(1)
    figures["the same by C = 100"] = (said[len(asked) :] < said[: len(asked)].quantile(0.05)).double().mean().item()
    return figures, given


def main() -> None:
    """Print a line of figures in % with 95 % intervals over draws for each number of images."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--base", default="efficientnet-lite0")
    parser.add_argument("--classes", help="FILE.json:LIST, the names of the classes to use")
    parser.add_argument("--every-second", type=int, choices=(0, 1), help="every second class, from this one on")
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 2, 5, 10, 20])
    parser.add_argument("--way", type=int, default=10)
    parser.add_argument("--queries", type=int, default=15)
    parser.add_argument("--draws", type=int, default=200)
    asked = parser.parse_args()
    base = load_base(asked.base)
    names, readings = embedded(base, asked.folder)
    if asked.classes:
        file, _, listed = asked.classes.rpartition(":")
        readings = [readings[names.index(name)] for name in json.loads(Path(file).read_text())[listed]]
    elif asked.every_second is not None:
        readings = readings[asked.every_second :: 2]
    for shot in asked.shots:
        rows = [draw(base, readings, asked.way, shot, asked.queries, seed) for seed in range(asked.draws)]
        truth = torch.arange(asked.way).repeat_interleave(asked.queries).repeat(asked.draws)
        error = 100 * calibration_error(torch.cat([given for _, given in rows]), truth)
        cells = []
        for name in rows[0][0]:
            values = 100 * np.array([figures[name] for figures, _ in rows])
            cells.append(f"{name} {values.mean():.2f} ± {1.96 * values.std(ddof=1) / math.sqrt(len(values)):.2f}")
        sys.stdout.write(f"{shot} images: {'; '.join(cells)}; calibration error {error:.1f} ({asked.draws} draws)\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
