"""The tables of a report. All text from the user is escaped where its cell is made."""

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from implanting.fewshot import Share
from implanting.report.contents import ScoreReport

MATRIX_LIMIT = 40
"""The largest number of classes for which the whole confusion matrix is shown."""

CONFUSIONS = 20
"""The number of confusions that are listed instead."""


def per_class_table(report: ScoreReport) -> str:
    """Render the accuracy and the most common wrong answer of each class that has images."""
    rows = []
    for number, (name, share) in enumerate(zip(report.names, report.score.per_class, strict=True)):
        if share.total:
            low, high = (f"{100 * end:.0f}" for end in share.interval)
            cells = [f"{share.right} of {share.total}", f"{100 * share.mean:.1f}", f"{low} to {high}"]
            rows.append([escape(name), *cells, _bar(share), escape(_mistaken_for(report, number))])
    return table(["class", "right", "%", "95 % interval", "", "mostly taken for"], rows)


def _bar(share: Share) -> str:
    """Draw a class's accuracy as a bar, and its interval as a thin line through the bar's end."""
    low, high = share.interval
    return (
        f'<div class=bar><i style="width:{100 * share.mean:.1f}%"></i>'
        f'<u style="left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%"></u></div>'
    )


def _mistaken_for(report: ScoreReport, number: int) -> str:
    answers = report.score.confusion[number].copy()
    answers[number] = 0
    return f"{report.names[answers.argmax()]} ({answers.max()})" if answers.any() else ""


def confusion(report: ScoreReport) -> tuple[str, str]:
    """Render a note and a table: the matrix or, for many classes, the most common confusions."""
    if len(report.score.classes) <= MATRIX_LIMIT:
        return "Rows are true classes, columns answers; the shade is the share of the row.", _matrix(report)
    pairs = report.score.confusions(CONFUSIONS)
    rows = [[escape(report.names[one.truth]), escape(report.names[one.answer]), str(one.images)] for one in pairs]
    note = f"The most common wrong answers; a matrix of {len(report.score.classes)} classes would not be readable."
    return note, table(["class", "taken for", "images"], rows) if rows else ""


def _matrix(report: ScoreReport) -> str:
    """Render the confusion matrix, with "none of these" only if it occurs as a label or as an answer."""
    counts = report.score.confusion
    last = len(counts) - 1
    rows = [number for number in range(last + 1) if number < last or counts[last].any()]
    columns = [number for number in range(last + 1) if number < last or counts[:, last].any()]
    head = "".join(f"<th class=answer><span>{escape(report.names[column])}</span></th>" for column in columns)
    body = "".join(
        f"<tr><th>{escape(report.names[row])}</th>"
        + "".join(_cell(counts, row, column, report.names) for column in columns)
        + "</tr>"
        for row in rows
    )
    return wide(f"<table class=matrix><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>")


def _cell(counts: np.ndarray, row: int, column: int, names: Sequence[str]) -> str:
    count = counts[row, column]
    if not count:
        return "<td></td>"
    kind = "hit" if row == column else "miss"
    hint = escape(f"{names[row]} taken for {names[column]}")
    return f'<td class={kind} style="--share:{count / counts[row].sum():.2f}" title="{hint}">{count}</td>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Render a table from cells that are already escaped."""
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return wide(f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>")


def wide(content: str) -> str:
    """Wrap a table so that, on a narrow screen, the table scrolls sideways instead of the page."""
    return f"<div class=wide>{content}</div>"


def settings_table(report: ScoreReport) -> str:
    """Render the settings, so that the run can be repeated."""
    settings = {**report.settings, "code version": report.code_version}
    return table(["setting", "value"], [[escape(str(key)), escape(str(value))] for key, value in settings.items()])
