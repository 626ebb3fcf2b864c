"""The errors of an export."""

from __future__ import annotations

from pathlib import Path

from tensor_tracer import TensorTracerError


def wrong(message: str, remedy: str = "", where: str = "") -> TensorTracerError:
    return TensorTracerError("invalid_argument", message, where, remedy)


def cannot_write(path: Path, error: OSError) -> TensorTracerError:
    remedy = "check the folder and the space on its disk"
    return TensorTracerError("storage", f"cannot be written: {error.strerror or error}", str(path), remedy)


def not_a_recording(message: str) -> TensorTracerError:
    remedy = "give a .ttrec file that `train --record` wrote"
    return TensorTracerError("not_a_recording", f"this recording cannot be read: {message}", "", remedy)
