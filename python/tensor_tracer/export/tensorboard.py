"""TensorBoard."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensor_tracer.compressors import EXPONENT_BINS, LOWEST_EXPONENT, MORE_STATISTICS, STATISTICS
from tensor_tracer.export.errors import wrong
from tensor_tracer.export.names import Source
from tensor_tracer.facts import RunFacts
from tensor_tracer.json_values import list_of, member
from tensor_tracer.record import Record


def import_tensorboard() -> tuple[Any, Any, Any]:
    """The modules of tensorboardX for events, summaries and writing; the error names the package and pip."""
    try:
        return (
            importlib.import_module("tensorboardX.proto.event_pb2"),
            importlib.import_module("tensorboardX.proto.summary_pb2"),
            importlib.import_module("tensorboardX.record_writer"),
        )
    except Exception as error:  # protobuf raises several types for a version that does not fit
        text = "TensorBoard's events need the package tensorboardX, which cannot be imported"
        remedy = f"{sys.executable} -m pip install --upgrade tensorboardX"
        raise wrong(f"{text}: {str(error).partition(chr(10))[0]}", remedy, "--to") from error


class EventFile:
    """A TensorBoard event file, by the package tensorboardX."""

    def __init__(self, path: Path, start_ns: int) -> None:
        self._events, self._summaries, writer = import_tensorboard()
        self._writer = writer.RecordWriter(str(path))
        self._write(self._events.Event(wall_time=start_ns / 1e9, file_version="brain.Event:2"))

    def add(self, step: int, time_ns: int, values: Iterable[dict[str, Any]]) -> None:
        """`values`: members of Summary.Value."""
        summary = self._summaries.Summary()
        for value in values:
            summary.value.add(**value)
        if summary.value:
            self._write(self._events.Event(wall_time=time_ns / 1e9, step=step, summary=summary))

    def histogram(self, limits: Sequence[float], stats: Sequence[float], total: float) -> Any:
        """The bins of a `stats` record as they are. `limits`: of n bins the n + 1 ends; `total`: of their numbers."""
        counts = stats[len(STATISTICS) :]
        return self._summaries.HistogramProto(
            min=limits[0], max=limits[-1], num=sum(counts), sum=total, sum_squares=_statistic(stats, "norm") ** 2,
            bucket_limit=limits[1:], bucket=counts,
        )  # fmt: skip

    def close(self) -> None:
        self._writer.close()

    def _write(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())


def _float32(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _scalar(tag: str, value: float) -> dict[str, Any]:
    return {"tag": tag, "simple_value": _float32(value)}


def _statistic(stats: Sequence[float], name: str) -> float:
    return stats[STATISTICS.index(name)]


def _stats_values(file: EventFile, tag: str, compressor: Any, record: Record) -> list[dict[str, Any]]:
    values = record.values.astype(np.float64)
    rows: list[list[float]] = values.reshape(-1, values.shape[-1]).tolist() if values.size else [[]]
    stats, more = rows[0], rows[1] if len(rows) > 1 else []
    bins = len(stats) - len(STATISTICS)
    if bins < 0:
        return []
    named = [*zip(STATISTICS, stats, strict=False), *zip(MORE_STATISTICS, more, strict=False)]
    values = [_scalar(f"{tag}/{name}", number) for name, number in named]
    # Only the plan says what the bins are.
    ends = list_of(compressor, "range")
    if len(ends) == 2 and all(isinstance(end, int | float) for end in ends) and bins:
        finite = stats[0] - sum(_statistic(stats, name) for name in ("nan", "pos_inf", "neg_inf"))
        total = _statistic(stats, "mean") * finite if finite > 0 else 0
        limits = np.linspace(ends[0], ends[1], bins + 1).tolist()
        values.append({"tag": f"{tag}/histogram", "histo": file.histogram(limits, stats, total)})
    elif isinstance(compressor, dict) and "range" not in compressor and bins == EXPONENT_BINS:
        # Of the numbers without their signs, so their sum is not known.
        limits = [2.0 ** (LOWEST_EXPONENT + n) for n in range(bins + 1)]
        values.append({"tag": f"{tag}/magnitudes", "histo": file.histogram(limits, stats, 0)})
    return values


def _projection_values(tag: str, record: Record, names: RunFacts) -> Iterator[dict[str, Any]]:
    """The mean over a row's tokens, and of that over the rows: each counts the same however long it is.
    A shorter prompt is filled up, which does not count."""
    if len(record.shape) != 3:
        return
    values = record.values.astype(np.float64)
    lengths, first_token = names.prompt_lengths(record.prompt_set), names.first_token(record.plan, record.entry)
    means = []
    for row, numbers in enumerate(values, record.first_row):
        own = numbers[: max(lengths[row] - first_token, 0)] if row < len(lengths) else numbers
        if len(own):
            means.append(own.mean(axis=0))
    vectors = names.vectors(record.plan, record.entry)
    for index, mean in enumerate(np.mean(means, axis=0).tolist() if means else ()):
        name = vectors[index] if index < len(vectors) else f"vector_{index}"
        yield _scalar(f"{tag}/{name}", mean)


def write_tensorboard(source: Source, path: Path) -> None:
    """Scalars, and what statistics and projections say."""
    steps, times, columns = source.scalars
    file = EventFile(path, times[0] if times else 0)
    with contextlib.closing(file):
        for row, (step, time) in enumerate(zip(steps, times, strict=True)):
            told = ((name, column[row]) for name, column in columns.items())
            file.add(step, time, [_scalar(name, value) for name, value in told if value is not None])
        for series, (_, tag) in zip(source.series, source.series_names, strict=True):
            for record in source.frames.records(series):
                if series.compressor_name == "stats":
                    compressor = member(source.names.entry(record.plan, record.entry), "compressor")
                    values: Iterable[dict[str, Any]] = _stats_values(file, tag, compressor, record)
                else:
                    values = _projection_values(tag, record, source.names)
                file.add(record.step, record.time, values)
