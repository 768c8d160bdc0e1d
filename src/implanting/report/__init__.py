"""How well images were classified: counts with intervals, what is confused with what, and one HTML file to look at."""

from implanting.report.contents import ScoreReport, Shown
from implanting.report.page import write_report
from implanting.report.scores import NONE, Score, telling

__all__ = ["NONE", "Score", "ScoreReport", "Shown", "telling", "write_report"]
