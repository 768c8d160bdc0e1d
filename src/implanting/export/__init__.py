"""Export a fitted classifier as one torch module, and that module as one ONNX graph, checked against the original."""

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

__all__ = [
    "EXPORTER",
    "RUNTIME",
    "TOLERANCE",
    "Agreement",
    "check",
    "installed",
    "onnx_bytes",
    "open_session",
    "require_exporter",
    "run",
    "sample_photos",
]
