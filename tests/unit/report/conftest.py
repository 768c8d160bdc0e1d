import numpy as np
import pytest

from implanting.report import Score, ScoreReport
from toy_report import HOSTILE, shown


@pytest.fixture
def report() -> ScoreReport:
    """Three classes, one of them with a name to break the page; an image of none, and one taken for none."""
    classes = ("oak", HOSTILE, "elm")
    score = Score(classes, np.array([0, 0, 1, 1, 2, 2, -1]), np.array([0, 1, 1, 1, -1, 0, -1]))
    return ScoreReport(
        title=f"trees {HOSTILE}",
        score=score,
        right=[shown("oak", "oak", classes), shown(HOSTILE, HOSTILE, classes)],
        wrong=[shown("oak", HOSTILE, classes), shown("elm", "none of these", classes)],
        settings={f"folder {HOSTILE}": HOSTILE, "implants": True},
        code_version="1.2+abc",
    )
