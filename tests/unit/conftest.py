"""A classifier in its two forms."""

from collections.abc import Callable
from typing import Any

import pytest

from implanting.base import BaseNetwork
from implanting.classifier.estimator import FewShotClassifier


@pytest.fixture(params=[False, True], ids=["prototypes", "implants"])
def new(request: pytest.FixtureRequest, base: BaseNetwork) -> Callable[..., FewShotClassifier]:
    """A classifier that is not fitted yet, with implants and without."""

    def make(**settings: Any) -> FewShotClassifier:
        return FewShotClassifier(base, **{"implants": request.param, "implant_epochs": 3, **settings})

    return make
