"""Figures into files."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from implanting.errors import ConfigError
from implanting.heatmap.layout import DPI

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "jpg", "pdf", "svg", "webp")
"""Endings of a file that a picture can be saved in."""


def save_figure(figure: "Figure", path: str | Path, dpi: int = DPI) -> None:
    """Write a figure in the format of the path's ending; a file that is there stays until the new one is drawn."""
    drawn = encoded(figure, picture_format(Path(path)), dpi)
    try:
        Path(path).write_bytes(drawn)
    except OSError as fault:
        raise ConfigError(f"{path} cannot be written ({fault.strerror}): choose another place") from fault


def picture_format(path: Path) -> str:
    """The format that a path's ending stands for; commands ask before they compute anything."""
    ending = path.suffix.lower().removeprefix(".").replace("jpeg", "jpg")
    if ending not in FORMATS:
        raise ConfigError(f"{path} is no picture's name: end it in .png, or in .{', .'.join(FORMATS[1:])}")
    return ending


def encoded(figure: "Figure", ending: str, dpi: int) -> bytes:
    """The bytes of a figure's file."""
    file = io.BytesIO()
    figure.savefig(file, format=ending, dpi=dpi)
    return file.getvalue()
