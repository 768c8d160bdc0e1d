"""Pictures side by side under their titles, with a colour scale: a matplotlib figure without global state.

Everything is placed in inches, so that any number of pictures of any shape comes out at the same scale.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from implanting.errors import ConfigError
from implanting.heatmap.lettering import drawable, wrap
from implanting.heatmap.overlay import Limits, Pixels, scale_colours
from implanting.runtime import figure_bytes, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 160
PICTURE = 2.4
"""Longer side of a picture, in inches."""
NARROWEST = 1.5
"""Smallest width of a title, in inches, for narrow pictures."""
GAP, LINE, SCALE_WIDTH, SCALE_ROOM = 0.12, 0.17, 0.1, 0.75
FONT_SIZE, SMALL = 9.0, 7.5
LETTER = 0.078
"""Width of a letter of that size, in inches."""


class Panel(NamedTuple):
    """A picture and the title above it: a name of any length, and a short remark."""

    picture: Pixels
    name: str
    remark: str = ""


class Title(NamedTuple):
    """Lines of text, and fonts that contain their letters."""

    text: str
    families: list[str]


class Size(NamedTuple):
    """The size in inches of a row of pictures and of its parts."""

    cell: float
    row: float
    width: float
    height: float


def row_size(panels: Sequence[Panel]) -> Size:
    """Compute the size of a row of equally large pictures with their titles and the scale."""
    height, width = (side / DPI for side in panels[0].picture.shape[:2])
    cell, row = max(width, NARROWEST), max(height, NARROWEST)
    lines = max(title(panel, cell).text.count("\n") + 1 for panel in panels)
    return Size(cell, row, GAP + len(panels) * (cell + GAP) + SCALE_ROOM, row + LINE * lines + 2 * GAP)


def row_figure(panels: Sequence[Panel], limits: Limits, scale_label: str) -> "Figure":
    """Draw equally large pictures in a row, with the scale of their colours."""
    from matplotlib.figure import Figure  # slow to import, and needed here only

    size = row_size(panels)
    figure = Figure((size.width, size.height), DPI, facecolor="white")
    draw_row(figure, panels, limits, scale_label)
    return figure


def draw_row(
    figure: "Figure", panels: Sequence[Panel], limits: Limits, scale_label: str, corner: tuple[float, float] = (0, 0)
) -> None:
    """Draw the row with its lower left corner at a given position in a figure."""
    size = row_size(panels)
    left, bottom = corner[0] + GAP, corner[1] + GAP
    for number, panel in enumerate(panels):
        height, width = (side / DPI for side in panel.picture.shape[:2])
        middle, centre = left + number * (size.cell + GAP) + size.cell / 2, bottom + size.row / 2
        axes = _place(figure, middle - width / 2, centre - height / 2, width, height)
        show(axes, panel.picture, title(panel, size.cell))
    _draw_scale(
        _place(figure, left + len(panels) * (size.cell + GAP), bottom, SCALE_WIDTH, size.row), limits, scale_label
    )


def title(panel: Panel, width: float) -> Title:
    """Set the name in at most two lines, with the remark below."""
    name, families = drawable(panel.name)
    lines = [wrap(name, int(width / LETTER)), panel.remark]
    return Title("\n".join(filter(None, lines)), families)


def _place(figure: "Figure", left: float, bottom: float, width: float, height: float) -> "Axes":
    """Add axes at a position in inches from the lower left corner."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def show(axes: "Axes", picture: Pixels, heading: Title) -> None:
    """Show a picture that fills its axes, with the text above it."""
    axes.imshow(picture, aspect="auto")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.annotate(
        heading.text,
        (0.5, 1),
        (0, 4),
        "axes fraction",
        "offset points",
        ha="center",
        va="bottom",
        fontsize=FONT_SIZE,
        fontfamily=heading.families,
        linespacing=1.25,
        parse_math=False,  # a name may contain dollar signs
    )


def _draw_scale(axes: "Axes", limits: Limits, label: str) -> None:
    upright = scale_colours(128)[::-1, None]
    axes.imshow(upright, aspect="auto", extent=(0, 1, limits.low, limits.high))
    axes.set_xticks([])
    axes.set_yticks([limits.low, (limits.low + limits.high) / 2, limits.high])
    axes.yaxis.set_major_formatter("{x:z.2f}")
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    axes.set_ylabel(label, fontsize=SMALL)
    axes.tick_params(labelsize=SMALL, length=2)
    axes.spines[:].set_visible(False)


def percent(probability: float) -> str:
    """Format a probability without decimals; it shows 0 or 100 only if that is exact."""
    rounded = round(100 * probability)
    if rounded == 0 and probability > 0:
        return "< 1 %"
    if rounded == 100 and probability < 1:
        return "> 99 %"
    return f"{rounded} %"


if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "jpg", "pdf", "svg", "webp")
"""Extensions of the formats in which a picture can be saved."""


def save_figure(figure: "Figure", path: str | Path, dpi: int = DPI) -> None:
    """Write a figure in the format of the path's extension; an existing file is replaced only once it is drawn."""
    picture_format(Path(path))
    write_figure(figure, Path(path), dpi)


def picture_format(path: Path) -> str:
    """Return the format of a path's extension; commands check this before they compute anything."""
    ending = path.suffix.lower().removeprefix(".").replace("jpeg", "jpg")
    if ending not in FORMATS:
        raise ConfigError(f"{path} is not a name for a picture: end it in .png, or in .{', .'.join(FORMATS[1:])}")
    return ending


def encoded(figure: "Figure", ending: str, dpi: int) -> bytes:
    """Return the bytes of a figure's file."""
    return figure_bytes(figure, ending, dpi)
