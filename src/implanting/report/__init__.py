"""Reports on classified images: counts with intervals, confused classes, and one HTML file to look at."""

from implanting.report.contents import ScoreReport, Shown
from implanting.report.page import is_report, write_report
from implanting.report.reliability import Bin, bins_of
from implanting.report.scores import NONE, Score, telling

__all__ = ["NONE", "Bin", "Score", "ScoreReport", "Shown", "bins_of", "is_report", "telling", "write_report"]
