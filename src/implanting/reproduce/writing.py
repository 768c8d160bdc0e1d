"""A table with its results, as text, as Markdown and as rows of a JSON document."""

from collections.abc import Mapping, Sequence
from typing import Any

from implanting.fewshot import Estimate, Result
from implanting.reproduce.claims import Decision
from implanting.reproduce.settings import Setting
from implanting.reproduce.tables import Cell, Row, Table

CLAIM_COLUMNS = ("claim", "paired difference", "paper", "verdict")


def _row_title(row: Row) -> str:
    if row.source == "literature" and any(cell.setting is not None for cell in row.cells.values()):
        return f"{row.title}, trained and tested by us"
    return {"paper": row.title, "literature": f"{row.title}, as reported", "ours": f"ours: {row.title}"}[row.source]


def _cell_lines(cell: Cell, results: Mapping[Setting, Result], mark: str) -> list[str]:
    """The measured accuracy, then the paper's figure and the difference."""
    if cell.setting is None:
        return [str(cell.figure or "")]
    result = results[cell.setting]
    if cell.figure is None:
        return [str(result.estimate)]
    return [str(result.estimate), f"paper {cell.figure.mean:.2f}, {difference(cell, result):+.2f}{mark}"]


def difference(cell: Cell, result: Result) -> float | None:
    """The measured accuracy minus the paper's, in per cent."""
    return None if cell.figure is None else 100 * result.mean - cell.figure.mean


def table_rows(table: Table, results: Mapping[Setting, Result], mark: str, line_break: str) -> list[list[str]]:
    """The texts of a table's cells, row by row."""
    return [
        [
            _row_title(row),
            *(line_break.join(_cell_lines(row.cells.get(name, Cell()), results, mark)) for name in table.columns),
        ]
        for row in table.rows
    ]


def claim_rows(decisions: Sequence[Decision], mark: str) -> list[list[str]]:
    """One line per claim, and below it one per comparison."""
    rows = []
    for decision in decisions:
        rows.append([f"{decision.claim.number}. {decision.claim.text}", "", "", decision.verdict.value])
        for finding in decision.findings:
            paper = "" if finding.paper is None else f"{finding.paper:+.2f}{mark}"
            rows.append([f"- {finding.comparison}", finding.difference.signed(), paper, finding.verdict.value])
    return rows


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def markdown(
    table: Table, results: Mapping[Setting, Result], decisions: Sequence[Decision], notes: Sequence[str], mark: str
) -> str:
    """The whole report as Markdown."""
    cells = _markdown_table(["", *table.columns], table_rows(table, results, mark, "<br>"))
    claims = _markdown_table(CLAIM_COLUMNS, claim_rows(decisions, mark))
    parts = [f"# {table.heading}\n", cells, "".join(f"- {note}\n" for note in notes)]
    return "\n".join([*parts, "## Claims\n", claims, f"![{table.heading}]({table.name}.png)\n"])


def result_rows(table: Table, results: Mapping[Setting, Result]) -> list[dict[str, Any]]:
    """One row of JSON per cell, including those from the literature; accuracies are fractions."""
    return [_json_cell(row, column, cell, results) for row in table.rows for column, cell in row.cells.items()]


def _json_cell(row: Row, column: str, cell: Cell, results: Mapping[Setting, Result]) -> dict[str, Any]:
    place: dict[str, Any] = {"row": row.title, "column": column, "source": row.source}
    figure = cell.figure
    if figure is not None:
        place |= {"paper": figure.mean / 100, "paper_interval": figure.interval and figure.interval / 100}
    if cell.setting is None:
        return place
    result = results[cell.setting]
    gap = difference(cell, result)
    measured = result.row() | {"base": str(cell.setting.stage1), "classes": cell.setting.classes}
    return place | measured | {"difference": None if gap is None else gap / 100}


def json_claims(decisions: Sequence[Decision]) -> list[dict[str, Any]]:
    """One JSON document per claim."""
    return [
        {
            "claim": decision.claim.number,
            "text": decision.claim.text,
            "verdict": decision.verdict.value,
            "comparisons": [
                {
                    "better": str(finding.comparison),
                    **_json_estimate(finding.difference),
                    "paper": None if finding.paper is None else finding.paper / 100,
                    "verdict": finding.verdict.value,
                }
                for finding in decision.findings
            ],
        }
        for decision in decisions
    ]


def _json_estimate(estimate: Estimate) -> dict[str, Any]:
    return {"difference": estimate.mean, "interval": estimate.known_interval, "tasks": estimate.tasks}
