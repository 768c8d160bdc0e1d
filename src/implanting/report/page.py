"""The page: its parts in order, its style, and its content security policy."""

from html import escape
from importlib.resources import files
from pathlib import Path

from implanting.fewshot import Share
from implanting.report.contents import ScoreReport
from implanting.report.gallery import gallery
from implanting.report.reliability import curve, note
from implanting.report.tables import confusion, per_class_table, settings_table
from implanting.runtime import holds, write_atomically

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""A browser may use only pictures and styles inside this file: no scripts, and nothing from outside."""

DIFFERENCE = "and their difference: red favours the first class, blue the second."

MARK = '<meta name="generator" content="implanting">'
"""Identifies a file as a report, which another report may replace."""

is_report = holds(MARK.encode())
"""Checks whether a file is such a report."""

PER_CLASS_NOTE = (
    "Right answers among the images of each class, with Wilson's 95 % interval, which few images make wide."
)


def write_report(report: ScoreReport, path: Path) -> None:
    """Write the report; an existing file is replaced only once the new one is complete."""
    write_atomically(path, render(report).encode("utf-8", errors="replace"))  # file names may not be valid text


def render(report: ScoreReport) -> str:
    """Render the whole page."""
    style = files("implanting.report").joinpath("style.css").read_text(encoding="utf-8")
    parts = [
        f"<h1>{escape(report.title)}</h1>",
        summary(report.score.accuracy),
        *(f"<p class=warning>{escape(remark)}</p>" for remark in report.remarks),
        _section("Answers by class", *confusion(report)),
        _section("Classes", PER_CLASS_NOTE, per_class_table(report)),
        _reliability(report),
        _section(
            "Wrong answers",
            f"The surest come first. Maps: the likeliest class, the true one (or the second likeliest), {DIFFERENCE}",
            gallery(report.wrong),
        ),
        _section(
            "Right answers",
            f"The surest of each class in turn. Maps: the answer, the second likeliest class, {DIFFERENCE}",
            gallery(report.right),
        ),
        _section("Settings", "", settings_table(report)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"{MARK}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{escape(report.title)}</title><style>{style}</style></head>\n<body><main>\n"
        + "\n".join(filter(None, parts))
        + "\n</main></body></html>\n"
    )


def _reliability(report: ScoreReport) -> str:
    bins = list(report.reliability)
    return _section("Calibration", note(bins), curve(bins)) if bins else ""


def _section(heading: str, note: str, content: str) -> str:
    """Render a section of the page, or nothing if it has no content."""
    if not content:
        return ""
    return f"<section><h2>{heading}</h2>{f'<p class=note>{note}</p>' if note else ''}{content}</section>"


def summary(accuracy: Share) -> str:
    """Render the accuracy and its interval."""
    low, high = (f"{100 * end:.1f}" for end in accuracy.interval)
    return (
        f"<p class=accuracy><b>{100 * accuracy.mean:.1f} %</b> right: {accuracy.right} of {accuracy.total} images</p>"
        f"<p class=note>95 % interval: {low} to {high} % (Wilson's score interval for a proportion of images). Among "
        "other images of the same kind, this classifier's share of right answers lies there, if these images are a "
        "fair sample of them. It does not say how a classifier fitted to other images would do.</p>"
    )
