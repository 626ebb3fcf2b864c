"""CSV: RFC 4180, but for "\n" alone at the end of a line."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tensor_tracer.export.frames import Series
from tensor_tracer.export.names import Source
from tensor_tracer.facts import RunFacts
from tensor_tracer.record import Array, Record

_COLUMNS = ("row", "token", "head", "feature")
_COLUMN_OF_DIM = {"batch": "row", "sequence": "token", "heads": "head"}
_RECORD_COLUMNS = ("step", "micro_batch", "point", "layer", "direction", "phase", "prompt_set", "entry",
                   "data_rank", "compressor", *_COLUMNS, "value")  # fmt: skip


def _texts(values: Array) -> list[str]:
    """The shortest text that reads back as the same number; float16 as the float32 that it is."""
    values = values.astype(np.float32) if values.dtype.itemsize == 2 else values
    return [text.removesuffix(".0") for text in values.ravel().astype(str).tolist()]


def _columns_of(series: Series, names: RunFacts) -> list[str]:
    """The column of each dim of a record; of one whose dims are not known all goes by its feature."""
    if series.compressor_name == "stats":
        return []
    dims = names.dims(names.point(series.point), len(series.shape))
    return [_COLUMN_OF_DIM.get(dim, "feature") for dim in dims]


def _cells(record: Record, values: Array, columns: list[str]) -> dict[str, list[Any]]:
    """Where each value stands; the columns that say so."""
    if not columns:
        return {"feature": list(range(values.size))}
    indices = np.indices(values.shape).reshape(values.ndim, -1)
    at = {column: indices[dim] for dim, column in reversed(list(enumerate(columns)))}
    if "row" in at:
        at["row"] = at["row"] + record.first_row
    return {column: numbers.tolist() for column, numbers in at.items()}


def _rows(record: Record, series: Series, names: RunFacts, columns: list[str]) -> Iterator[list[Any]]:
    begin = [
        record.step, record.micro_batch, names.point(series.point), record.layer or "", record.direction,
        record.phase, names.prompt_set(record.prompt_set), record.entry, record.data_rank, series.compressor_name,
    ]  # fmt: skip
    values = record.values
    is_best = series.compressor_name == "topk" and values.ndim == 4
    if is_best:  # the k largest numbers of each token, then their columns
        at = _cells(record, values[0], ["row", "token", "feature"])
        at["feature"] = values[1].ravel().astype(np.int64).tolist()
        values = values[0]
    else:
        at = _cells(record, values, columns)
    cells = [at.get(column, [""] * values.size) for column in _COLUMNS]
    for *place, text in zip(*cells, _texts(values), strict=True):
        yield [*begin, *place, text]


def write_csv_records(source: Source, path: Path) -> None:
    """The records one value a line."""
    with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_RECORD_COLUMNS)
        for series in source.series:
            columns = _columns_of(series, source.names)
            for record in source.frames.records(series):
                writer.writerows(_rows(record, series, source.names, columns))


def write_csv_scalars(source: Source, path: Path) -> None:
    """The scalars one step a line."""
    steps, times, columns = source.scalars
    with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["step", "time", *columns])
        for step, time, *values in zip(steps, times, *columns.values(), strict=True):
            numbers = ["" if value is None else repr(float(value)).removesuffix(".0") for value in values]
            writer.writerow([step, f"{time // 10**9}.{time % 10**9:09}", *numbers])
