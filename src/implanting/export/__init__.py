"""Export a fitted classifier as one ONNX graph, checked against the original, and that graph as one HTML page."""

from implanting.export.onnx_file import (
    EXPORTER,
    RUNTIME,
    TOLERANCE,
    Agreement,
    check,
    installed,
    onnx_bytes,
    open_session,
    require_exporter,
    run,
    sample_photos,
)
from implanting.export.web_page import MARK, page_bytes

__all__ = [
    "EXPORTER",
    "MARK",
    "RUNTIME",
    "TOLERANCE",
    "Agreement",
    "check",
    "installed",
    "onnx_bytes",
    "open_session",
    "page_bytes",
    "require_exporter",
    "run",
    "sample_photos",
]
