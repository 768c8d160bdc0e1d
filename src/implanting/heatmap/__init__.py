"""Heat maps that show where an image resembles a class: scores per location, laid over the image, as pictures.

This room draws the scores it is given and does not know which classifier they come from.
"""

from implanting.heatmap.explanation import Explanation
from implanting.heatmap.layout import (
    DPI,
    GAP,
    LETTER,
    LINE,
    NARROWEST,
    SMALL,
    Panel,
    draw_row,
    percent,
    picture_format,
    row_size,
    save_figure,
)
from implanting.heatmap.maps import SCALE_LABELS, MapKind, evidence_maps, similarity_maps, softmax_maps
from implanting.heatmap.overlay import Limits, Pixels, centre_square, fit, overlay, scale_colours

__all__ = [
    "DPI",
    "GAP",
    "LETTER",
    "LINE",
    "NARROWEST",
    "SCALE_LABELS",
    "SMALL",
    "Explanation",
    "Limits",
    "MapKind",
    "Panel",
    "Pixels",
    "centre_square",
    "draw_row",
    "evidence_maps",
    "fit",
    "overlay",
    "percent",
    "picture_format",
    "row_size",
    "save_figure",
    "scale_colours",
    "similarity_maps",
    "softmax_maps",
]
