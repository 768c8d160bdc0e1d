"""What a report shows, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from implanting.heatmap import Explanation
from implanting.scores import Score


@dataclass(frozen=True)
class Shown:
    """An image of the report: its name, and where it looks like the class it was given and, if wrong, the true one."""

    name: str
    truth: str
    explanation: Explanation
    """Of the answer first, then, where it is wrong and a class of the classifier, of the truth."""


@dataclass(frozen=True)
class ScoreReport:
    """All that the report shows."""

    title: str
    score: Score
    right: Sequence[Shown]
    wrong: Sequence[Shown]
    settings: Mapping[str, object]
    code_version: str
    unknown: str = "none of these"
    """What class number -1 is called."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the rows and columns of the confusion matrix."""
        return (*self.score.classes, self.unknown)
