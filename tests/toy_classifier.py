"""Images of four shades with names, a classifier fitted to some of them, and all that it consists of."""

from typing import Any

import numpy as np
import torch

from implanting.classifier.estimator import FewShotClassifier
from implanting.classifier.labels import Labels
from toys import coloured

SHADES = coloured(classes=4, per_class=6, size=32, seed=1, prefix="shade")
IMAGES, NUMBERS = SHADES.images.numpy(), SHADES.labels.numpy()
NAMES = np.array(["oak", "ash", "beech", "élm"])[NUMBERS]
TRAINED, ASKED = slice(0, 16), slice(16, 24)


def fitted(classifier: FewShotClassifier, labels: Labels = NAMES) -> FewShotClassifier:
    return classifier.fit(IMAGES[TRAINED], labels[TRAINED])


def state(classifier: FewShotClassifier) -> dict[str, Any]:
    """All that a classifier consists of, in a form that can be compared."""
    learned = classifier.learned_
    tensors = [learned.prototypes, learned.counts, *classifier.base_.tensors.values()]
    for implant in learned.implants.layers if learned.implants else []:
        tensors += [*implant.parameters(), *implant.statistics]
    tensors += classifier.learned_.supports or ()
    plain = {name: value for name, value in classifier.get_params().items() if name != "base"}
    return {
        "settings": plain,
        "names": sorted(vars(classifier)),
        "classes": (classifier.classes_.dtype, classifier.classes_.tolist()),
        "calibration": learned.calibration,
        "tensors": [(tensor.shape, tensor.numpy().tobytes()) for tensor in tensors],
        "global randomness": (torch.get_rng_state().numpy().tobytes(), np.random.get_state()[1].tobytes()),
    }


def all_classes(classifier: FewShotClassifier) -> list[Any]:
    return classifier.classes_.tolist()
