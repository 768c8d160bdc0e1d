"""Per-location class scores -> a heat map laid over the image."""

from implanting.heatmap.explanation import Explanation
from implanting.heatmap.layout import percent
from implanting.heatmap.maps import SCALE_LABELS, MapKind, similarity_maps, softmax_maps
from implanting.heatmap.overlay import Box, Limits, centre_square, fit, overlay, scale_colours
from implanting.heatmap.saving import picture_format, save_figure

__all__ = [
    "SCALE_LABELS",
    "Box",
    "Explanation",
    "Limits",
    "MapKind",
    "centre_square",
    "fit",
    "overlay",
    "percent",
    "picture_format",
    "save_figure",
    "scale_colours",
    "similarity_maps",
    "softmax_maps",
]
