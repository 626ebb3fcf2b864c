"""The errors of an export."""

from __future__ import annotations

from pathlib import Path

from tensor_tracer import TensorTracerError


def wrong(message: str, remedy: str = "", where: str = "") -> TensorTracerError:
    return TensorTracerError("invalid_argument", message, where, remedy)


def cannot_write(path: Path) -> TensorTracerError:
    remedy = "check the folder and the space on its disk"
    return TensorTracerError("storage", "cannot be written", str(path), remedy)
