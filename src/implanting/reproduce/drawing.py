"""A table as a bar chart with intervals, and the paper's figures as marks."""

import math
from collections.abc import Mapping
from pathlib import Path

from implanting.fewshot import Result
from implanting.reproduce.settings import Setting
from implanting.reproduce.tables import Cell, Table
from implanting.runtime import write_figure

OURS, PAPER = "tab:blue", "black"


def draw_table(table: Table, results: Mapping[Setting, Result], title: str, picture: Path) -> None:
    """Draw one panel per column and one bar per row; rows from the literature have only the mark."""
    from matplotlib.figure import Figure  # slow to import, and needed here only

    height = 1.6 + 0.32 * len(table.rows)
    figure = Figure(figsize=(3.0 + 2.6 * len(table.columns), height), layout="constrained")
    panels = figure.subplots(1, len(table.columns), sharey=True, squeeze=False)[0]
    for column, panel in zip(table.columns, panels, strict=True):
        draw_column(panel, [row.cells.get(column, Cell()) for row in table.rows], results)
        panel.set(title=column, xlabel="accuracy in %, axis cut")
    titles = [f"{row.title}{' (ours)' * (row.source == 'ours')}" for row in table.rows]
    panels[0].set_yticks(range(len(titles)), titles)
    panels[0].invert_yaxis()
    handles, labels = panels[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=2, fontsize="small", frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize="medium", wrap=True)
    write_figure(figure, picture, 120)


def draw_column(panel, cells: list[Cell], results: Mapping[Setting, Result]) -> None:  # type: ignore[no-untyped-def] # matplotlib's Axes, which is slow to import
    """Draw one panel; its axis does not start at 0, where gains of one point could not be seen."""
    measured = {place: results[cell.setting] for place, cell in enumerate(cells) if cell.setting}
    printed = {place: cell.figure for place, cell in enumerate(cells) if cell.figure}
    intervals = [0 if math.isnan(result.interval) else 100 * result.interval for result in measured.values()]
    means = [100 * result.mean for result in measured.values()]
    panel.barh(
        list(measured), means, xerr=intervals, color=OURS, alpha=0.6, capsize=2, label="measured here, 95 % interval"
    )
    panel.errorbar(
        [figure.mean for figure in printed.values()],
        list(printed),
        xerr=[figure.interval or 0 for figure in printed.values()],
        fmt="D",
        color=PAPER,
        markersize=4,
        capsize=2,
        label="in the paper",
    )
    values = means + [figure.mean for figure in printed.values()]
    if values:
        low, high = 5 * math.floor((min(values) - 2) / 5), 5 * math.ceil((max(values) + 2) / 5)
        panel.set_xlim(max(0, low), min(100, high))
    panel.grid(axis="x", linewidth=0.4)
    panel.set_axisbelow(True)
