"""TensorBoard."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tensor_tracer import Record

from tensor_tracer_export.errors import wrong
from tensor_tracer_export.json_values import list_of, member, natural
from tensor_tracer_export.names import RunNames, Source, plans_of


# docs/protocol.md, `stats`: these, then a histogram.
_MOMENTS = ("count", "mean", "std", "min", "max", "norm", "zeros", "nan", "pos_inf", "neg_inf")


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

    def histogram(self, low: float, high: float, stats: Sequence[float]) -> Any:
        """Of even bins from `low` to `high`."""
        counts = stats[len(_MOMENTS) :]
        finite = stats[0] - sum(stats[7:10])
        return self._summaries.HistogramProto(
            min=low, max=high, num=sum(counts), sum=stats[1] * finite if finite > 0 else 0, sum_squares=stats[5] ** 2,
            bucket_limit=[low + (high - low) * (i + 1) / len(counts) for i in range(len(counts))], bucket=counts,
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


def _stats_values(file: EventFile, tag: str, compressor: Any, record: Record) -> list[dict[str, Any]]:
    stats = record.values.astype(np.float64).ravel().tolist()
    if len(stats) < len(_MOMENTS):
        return []
    values = [_scalar(f"{tag}/{name}", number) for name, number in zip(_MOMENTS, stats, strict=False)]
    # Only a histogram with a range has even bins, and only the plan knows the range.
    ends = list_of(compressor, "range")
    if len(ends) == 2 and all(isinstance(end, int | float) for end in ends):
        values.append({"tag": f"{tag}/histogram", "histo": file.histogram(float(ends[0]), float(ends[1]), stats)})
    return values


def _projection_values(tag: str, entry: Any, record: Record, names: RunNames) -> Iterator[dict[str, Any]]:
    """The mean over a row's tokens, and of that over the rows: each counts the same however long it is.
    A shorter prompt is filled up, which does not count."""
    if len(record.shape) != 3:
        return
    values = record.values.astype(np.float64)
    lengths, tokens = names.prompt_lengths(record.prompt_set), list_of(entry, "tokens")
    first_token = natural(tokens[0]) or 0 if tokens else 0
    means = []
    for row, numbers in enumerate(values, record.first_row):
        own = numbers[: max(lengths[row] - first_token, 0)] if row < len(lengths) else numbers
        if len(own):
            means.append(own.mean(axis=0))
    vectors = list_of(member(entry, "compressor"), "vectors")
    for index, mean in enumerate(np.mean(means, axis=0).tolist() if means else ()):
        known = index < len(vectors) and isinstance(vectors[index], str)
        yield _scalar(f"{tag}/{vectors[index] if known else f'vector_{index}'}", mean)


def write_tensorboard(source: Source, path: Path) -> None:
    """Scalars, and what statistics and projections say."""
    steps, times, columns = source.scalars
    plans = plans_of(source.database, source.run, source.facts)
    file = EventFile(path, times[0] if times else 0)
    with contextlib.closing(file):
        for row, (step, time) in enumerate(zip(steps, times, strict=True)):
            told = ((name, column[row]) for name, column in columns.items())
            file.add(step, time, [_scalar(name, value) for name, value in told if value is not None])
        for series, (_, tag) in zip(source.series, source.series_names, strict=True):
            for record in source.frames.records(series):
                entries = list_of(plans.get(record.plan), "entries")
                entry = entries[record.entry] if record.entry < len(entries) else None
                if series.compressor_name == "stats":
                    file.add(record.step, record.time, _stats_values(file, tag, member(entry, "compressor"), record))
                else:
                    file.add(record.step, record.time, _projection_values(tag, entry, record, source.names))
