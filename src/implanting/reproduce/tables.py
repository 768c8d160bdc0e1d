"""The shape of a table: rows of cells, each with the experiment behind it and the paper's figure."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from implanting.config import ImplantConfig
from implanting.errors import ConfigError
from implanting.reproduce.settings import SHORT, Setting, Stage1, paper_implants

DataName = Literal["miniImageNet", "FC100"]


@dataclass(frozen=True)
class PrintedAccuracy:
    """An accuracy as the paper prints it, in per cent, sometimes without an interval."""

    mean: float
    interval: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if self.interval is None else f" ± {self.interval:.2f}")


@dataclass(frozen=True)
class Cell:
    """One number of a table."""

    setting: Setting | None = None
    """The experiment; None for figures that the paper quotes from the literature."""
    figure: PrintedAccuracy | None = None
    """The paper's figure; None if it gives none."""


@dataclass(frozen=True)
class Row:
    """A row of a table: its cells by column."""

    title: str
    cells: Mapping[str, Cell]
    source: Literal["paper", "literature", "ours"] = "paper"
    system: Stage1 | None = None
    """The network to train if this row from the literature is run by us."""


@dataclass(frozen=True)
class Table:
    """A table of the paper."""

    number: int
    title: str
    data: DataName
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""
    called: str | None = None
    """The name of a table that is not one of the paper's."""

    @property
    def name(self) -> str:
        """The name on the command line."""
        return self.called or f"table{self.number}"

    @property
    def heading(self) -> str:
        """The title with its number, if it is one of the paper's tables."""
        return f"Table {self.number}: {self.title}" if self.called is None else self.title

    def cells(self) -> Iterator[Cell]:
        """All cells, row by row."""
        return (cell for row in self.rows for cell in row.cells.values())

    def settings(self) -> dict[Stage1, list[Setting]]:
        """The experiments behind the cells, without repetition, by the base network they need."""
        found: dict[Stage1, dict[Setting, None]] = {}
        for cell in self.cells():
            if cell.setting is not None:
                if (start := cell.setting.stage1.start) is not None:
                    found.setdefault(start, {})  # trained before what starts from it
                found.setdefault(cell.setting.stage1, {})[cell.setting] = None
        return {stage1: list(settings) for stage1, settings in found.items()}

    def figures(self) -> dict[Setting, PrintedAccuracy]:
        """The paper's figure of each experiment that has one."""
        return {cell.setting: cell.figure for cell in self.cells() if cell.setting and cell.figure}

    def with_shots(self, shots: Sequence[int]) -> "Table":
        """The table reduced to these numbers of shots."""
        there = sorted({setting.shot for settings in self.settings().values() for setting in settings})
        if unknown := sorted(set(shots) - set(there)):
            known = " or ".join(str(shot) for shot in there)
            raise ConfigError(
                f"`shot` is {unknown[0]}; the tasks of {self.name} have {known} shots: choose among these"
            )
        left_out = {f"{shot}-shot" for shot in there if shot not in shots}
        columns = tuple(column for column in self.columns if column not in left_out)
        rows = [
            dataclasses.replace(row, cells={column: row.cells[column] for column in columns if column in row.cells})
            for row in self.rows
        ]
        return dataclasses.replace(self, columns=columns, rows=tuple(row for row in rows if row.cells))

    def with_systems(self) -> "Table":
        """The table with our own runs of the systems quoted from the literature, next to the reported figures."""
        if not any(row.system for row in self.rows):
            raise ConfigError(f"{self.name} quotes no system of the literature: leave out `systems`")
        return dataclasses.replace(self, rows=tuple(_run_by_us(row) for row in self.rows))

    def with_ours(self, adapt: ImplantConfig) -> "Table":
        """The table with a row of ours below the paper's implants, if these settings differ from the paper's."""
        paper = paper_implants()
        if adapt == paper:
            return self
        places = [place for place, row in enumerate(self.rows) if implants_of(row) == paper]
        if not places:
            raise ConfigError(f"{self.name} has no implants: leave out the settings of implants")
        below = self.rows[places[0]]
        cells = {
            column: Cell(dataclasses.replace(cell.setting, implants=adapt))
            for column, cell in below.cells.items()
            if cell.setting
        }
        changed = [
            f"{name.removeprefix('implant_').replace('_', ' ')} {SHORT.get(value, value)}"
            for name, value in dataclasses.asdict(adapt).items()
            if value != getattr(paper, name)
        ]
        ours = Row(f"{below.title}, {', '.join(changed)}", cells, "ours")
        return dataclasses.replace(self, rows=(*self.rows[: places[0] + 1], ours, *self.rows[places[0] + 1 :]))


def _run_by_us(row: Row) -> Row:
    if row.system is None:
        return row
    cells = {
        column: Cell(Setting(row.system, int(column.removesuffix("-shot")), "gap", "gap"), cell.figure)
        for column, cell in row.cells.items()
    }
    return dataclasses.replace(row, cells=cells)


def implants_of(row: Row) -> ImplantConfig | None:
    """The settings of a row's implants, if it has implants."""
    return next((cell.setting.implants for cell in row.cells.values() if cell.setting), None)
