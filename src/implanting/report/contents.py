"""The contents of a report, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from implanting.heatmap import Explanation
from implanting.report.reliability import Bin
from implanting.report.scores import Score


@dataclass(frozen=True)
class Shown:
    """An image of the report, with heat maps of the two most relevant classes."""

    name: str
    truth: str
    answer: str
    explanation: Explanation

    @classmethod
    def of(cls, name: str, truth: str, answer: str, explanation: Explanation) -> "Shown":
        """Choose the maps of the likeliest class, and of the true class or, if the answer is right, of the second."""
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
    """The name of class number -1."""
    reliability: Sequence[Bin] = ()
    """The calibration curve."""
    remarks: Sequence[str] = ()
    """Reasons to be careful with the accuracy."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the rows and columns of the confusion matrix."""
        return (*self.score.classes, self.unknown)
