"""The report of `implanting score` as one HTML file: nothing is fetched, nothing runs, all user text is escaped."""

from implanting.html_report.contents import ScoreReport, Shown
from implanting.html_report.page import render, write_report

__all__ = ["ScoreReport", "Shown", "render", "write_report"]
