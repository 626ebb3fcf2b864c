"""Arrays of a recording that are written record by record, and NPZ."""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from tensor_tracer.errors import TensorTracerError, wrong
from tensor_tracer.export.frames import Frames, Scalars, Series
from tensor_tracer.export.names import Source
from tensor_tracer.record import WIRE, Record, u8_lines
from tensor_tracer.recording_file import not_a_recording


class DenseArray(NamedTuple):
    """Row-major and little-endian; `dtype` as on the wire."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    chunks: Callable[[], Iterable[bytes]]

    @property
    def item_bytes(self) -> int:
        return np.dtype(WIRE[self.dtype]).itemsize

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.item_bytes

    def write(self, file: IO[bytes]) -> None:
        """Raises where the chunks do not have the size that the header states."""
        written = 0
        for chunk in self.chunks():
            file.write(chunk)
            written += len(chunk)
        if written != self.size:
            raise not_a_recording(f"{self.name} has {written} bytes, its shape {self.size}")


def _codes_and_lines(frames: Frames, series: Series, name: str) -> list[DenseArray]:
    head, stacked = 8 * u8_lines(series.shape), (series.records, *series.shape)
    lines = (series.records, *series.shape[:-1], 2)
    return [
        DenseArray(name, "u8", stacked, lambda: (r.payload[head:] for r in frames.records(series))),
        DenseArray(f"{name}.lines", "f32", lines, lambda: (r.payload[:head] for r in frames.records(series))),
    ]


def _numbers(frames: Frames, series: Series, name: str, has_bf16: bool) -> DenseArray:
    is_widened = series.wire == "u8" or (series.wire == "bf16" and not has_bf16)
    dtype, shape = "f32" if is_widened else series.wire, (series.records, *series.shape)
    if is_widened:
        return DenseArray(name, dtype, shape, lambda: (_floats(r) for r in frames.records(series)))
    return DenseArray(name, dtype, shape, lambda: (r.payload for r in frames.records(series)))


def _floats(record: Record) -> bytes:
    return record.values.astype("<f4").tobytes()


def _series_arrays(source: Source, index: int, has_bf16: bool, raw: bool) -> list[DenseArray]:
    frames, series, (name, _) = source.frames, source.series[index], source.series_names[index]
    if series.wire not in WIRE:
        remedy = "name other points with --point, or use a newer version"
        text = f"{name} has a dtype that this version does not know"
        raise TensorTracerError("unsupported_version", text, "", remedy)
    if series.wire == "u8" and raw and 0 not in series.shape:
        arrays = _codes_and_lines(frames, series, name)
    else:
        arrays = [_numbers(frames, series, name, has_bf16)]

    def column(member: str) -> Callable[[], Iterable[bytes]]:
        return lambda: (struct.pack("<q", getattr(place, member)) for place in frames.places(series))

    columns = [("steps", "step", True), ("micro_batches", "micro_batch", series.micro_batches),
               ("first_rows", "first_row", series.first_rows), ("plans", "plan", series.plans)]  # fmt: skip
    for plural, member, is_written in columns:
        if is_written:
            arrays.append(DenseArray(f"{name}.{plural}", "i64", (series.records,), column(member)))
    return arrays


def _scalar_arrays(scalars: Scalars) -> Iterator[DenseArray]:
    shape = (len(scalars.steps),)

    def chunks(numbers: list[int] | list[float | None], dtype: str) -> Callable[[], Iterable[bytes]]:
        return lambda: [np.array(numbers, dtype).tobytes()]

    for name, integers in (("step", scalars.steps), ("time_ns", scalars.times)):
        yield DenseArray(f"scalars.{name}", "i64", shape, chunks(integers, "<i8"))
    for name, column in scalars.columns.items():
        yield DenseArray(f"scalars.{name}", "f64", shape, chunks(column, "<f8"))


def make_arrays(source: Source, has_bf16: bool, raw: bool) -> list[DenseArray]:
    """Every series as `<name>`, `<name>.steps` and, where they are not all 0, `.micro_batches` and
    `.first_rows`, where there is more than one, `.plans`; the scalars as `scalars.…`."""
    arrays: list[DenseArray] = []
    for index in range(len(source.series)):
        arrays += _series_arrays(source, index, has_bf16, raw)
    if source.scalars.steps:
        arrays += _scalar_arrays(source.scalars)
    taken: set[str] = set()
    for array in arrays:
        if array.name in taken:
            raise wrong(f"two arrays would be called {array.name}", "name fewer points with --point")
        taken.add(array.name)
    return arrays


def write_npz(source: Source, path: Path, raw: bool) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for array in make_arrays(source, False, raw):
            descriptor = np.dtype(WIRE[array.dtype]).str
            header = {"descr": descriptor, "fortran_order": False, "shape": array.shape}
            member = zipfile.ZipInfo(f"{array.name}.npy")  # of 1980, so that equal exports are equal
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array_header_1_0(file, header)
                array.write(file)
