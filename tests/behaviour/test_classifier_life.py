"""A classifier's life: fitted, asked, extended, cut back, trained anew, explained, saved, the same elsewhere."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import ENVIRONMENT
from implanting.classifier.estimator import FewShotClassifier
from implanting.errors import ImplantsKept
from implanting.images import read_folder
from toys import coloured, noise

SHADES = coloured(classes=4, per_class=6, size=48, seed=1, prefix="shade")
NAMES = ("ash", "élm", "oak", "red beech")

ELSEWHERE = """
import json, sys
from implanting import FewShotClassifier
classifier = FewShotClassifier.load(sys.argv[1])
paths = sys.argv[2:]
answers = {
    "classes": classifier.classes_.tolist(),
    "answers": classifier.predict(paths).tolist(),
    "probabilities": classifier.predict_proba(paths).tolist(),
    "scores": classifier.open_set_score(paths).tolist(),
    "map": classifier.explain(paths[0], top=2).map.tolist(),
    "refitted": classifier.refit().predict_proba(paths).tolist(),
}
print(json.dumps(answers))
"""


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Four classes of four photos to learn from, and two of each to ask about."""
    for number, name in enumerate(NAMES):
        for place, image in enumerate(SHADES.images[number == SHADES.labels].numpy()):
            folder = tmp_path / ("known" if place < 4 else "asked") / name
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image[: 48 - place]).save(folder / f"{place}.png")
    return tmp_path


def test_a_whole_life(photos: Path, base_file: Path) -> None:
    paths, labels = read_folder(photos / "known")
    asked, truth = read_folder(photos / "asked")
    classifier = FewShotClassifier(
        base_file, implants=True, implant_epochs=4, keep_supports=True, refuse=0.1, image_size=32
    )
    classifier.fit(paths, labels)
    assert classifier.score(asked, truth) > 0.8

    strangers = noise(5, 40, 56, 3, seed=5).numpy()
    before = classifier.predict_proba(asked)
    with pytest.warns(ImplantsKept):
        classifier.add_class("moss", strangers[:3])
    assert classifier.predict(strangers[3:]).tolist() == ["moss", "moss"]
    with pytest.warns(ImplantsKept):
        classifier.add_images(strangers[3:], ["moss", "moss"])
    with pytest.warns(ImplantsKept):
        classifier.remove_class("moss")
    assert np.array_equal(classifier.predict_proba(asked), before)
    with pytest.warns(ImplantsKept):
        classifier.add_class("moss", strangers).remove_class("ash")
    kept = classifier.predict_proba(asked)
    assert not np.array_equal(classifier.refit().predict_proba(asked), kept)
    assert classifier.classes_.tolist() == ["moss", "oak", "red beech", "élm"]

    classifier.set_params(unknown="none")
    explanation = classifier.explain(asked[0], top=2)
    explanation.save(photos / "heat.png")
    with Image.open(photos / "heat.png") as picture:
        assert min(picture.size) > 100

    classifier.save(photos / "trees.safetensors")
    command = [sys.executable, "-c", ELSEWHERE, str(photos / "trees.safetensors"), *map(str, asked)]
    finished = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout) == {
        "classes": classifier.classes_.tolist(),
        "answers": classifier.predict(asked).tolist(),
        "probabilities": classifier.predict_proba(asked).tolist(),
        "scores": classifier.open_set_score(asked).tolist(),
        "map": explanation.map.tolist(),
        "refitted": classifier.predict_proba(asked).tolist(),
    }
