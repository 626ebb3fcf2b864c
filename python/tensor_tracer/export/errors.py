"""The errors of an export."""

from __future__ import annotations

from pathlib import Path

from tensor_tracer.errors import TensorTracerError


def cannot_write(path: Path, error: Exception) -> TensorTracerError:
    remedy = "check the folder and the space on its disk"
    why = getattr(error, "strerror", None) or error
    return TensorTracerError("storage", f"cannot be written: {why}", str(path), remedy)
