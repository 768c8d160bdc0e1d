"""What a report shows, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from implanting.heatmap import Explanation
from implanting.report.reliability import Bin
from implanting.report.scores import Score


@dataclass(frozen=True)
class Shown:
    """An image of the report, and where it looks like the two classes that matter."""

    name: str
    truth: str
    answer: str
    explanation: Explanation

    @classmethod
    def of(cls, name: str, truth: str, answer: str, explanation: Explanation) -> "Shown":
        """From the maps of all classes: those of the likeliest, and of the true class or, where right, the second."""
        first, *others = explanation.top(2).classes
        second = [truth] if truth in explanation.classes and truth != first else others
        return cls(name, truth, answer, explanation.only([first, *second]))


@dataclass(frozen=True)
class ScoreReport:
    """Everything that the report shows."""

    title: str
    score: Score
    right: Sequence[Shown]
    wrong: Sequence[Shown]
    settings: Mapping[str, object]
    code_version: str
    unknown: str = "none of these"
    """What class number -1 is called."""
    reliability: Sequence[Bin] = ()
    """The calibration curve."""
    remarks: Sequence[str] = ()
    """What makes the accuracy say less than it seems to."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the rows and columns of the confusion matrix."""
        return (*self.score.classes, self.unknown)
