"""A classifier in its three forms."""

from collections.abc import Callable
from typing import Any

import pytest

from implanting.base import BaseNetwork
from implanting.classifier.estimator import FewShotClassifier

FORMS: dict[str, dict[str, Any]] = {
    "head": {"implants": False},
    "prototypes": {"implants": False, "head": "prototypes"},
    "implants": {"implants": True},
}


@pytest.fixture(params=FORMS)
def new(request: pytest.FixtureRequest, base: BaseNetwork) -> Callable[..., FewShotClassifier]:
    """A classifier that is not fitted yet: with a head, with prototypes, with prototypes and implants."""

    def make(**settings: Any) -> FewShotClassifier:
        return FewShotClassifier(base, **{**FORMS[request.param], "implant_epochs": 3, **settings})

    return make
