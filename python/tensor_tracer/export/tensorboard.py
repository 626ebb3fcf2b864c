"""TensorBoard."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tensor_tracer.errors import wrong
from tensor_tracer.export.names import Source, one_word, tag_of, words_of_mean
from tensor_tracer.readings import Bins, Mean, Reading, means_of, readings_of
from tensor_tracer.recording_file import not_a_recording


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

    def add(self, step: int, time_ns: int, prefix: str, readings: Iterable[Reading | Bins]) -> None:
        """`prefix`: of the tags, such as "HiddenStates/layer_3/"."""
        summary = self._summaries.Summary()
        for reading in readings:
            tag = prefix + one_word(reading.name, keep="/")
            if isinstance(reading, Bins):
                summary.value.add(tag=tag, histo=self._histogram(reading))
            else:
                summary.value.add(tag=tag, simple_value=_float32(reading.value))
        if summary.value:
            self._write(self._events.Event(wall_time=time_ns / 1e9, step=step, summary=summary))

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _histogram(self, bins: Bins) -> Any:
        return self._summaries.HistogramProto(
            min=bins.limits[0], max=bins.limits[-1], num=sum(bins.counts), sum=bins.total, sum_squares=bins.sum_squares,
            bucket_limit=bins.limits[1:], bucket=bins.counts,
        )  # fmt: skip

    def _write(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())


def _float32(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def write_tensorboard(source: Source, path: Path) -> None:
    """Scalars, statistics, updates and projections."""
    steps, times, columns = source.scalars
    file = EventFile(path, times[0] if times else 0)
    with contextlib.closing(file):
        for row, (step, time) in enumerate(zip(steps, times, strict=True)):
            told = [(name, column[row]) for name, column in columns.items()]
            file.add(step, time, "", [Reading(name, value) for name, value in told if value is not None])
        for series, (_, tag) in zip(source.series, source.series_names, strict=True):
            for record in source.frames.records(series):
                file.add(record.step, record.time, f"{tag}/", readings_of(record, source.names))
        for step, time, mean in _means(source):
            file.add(step, time, f"{tag_of(words_of_mean(mean))}/", mean.readings)


def _means(source: Source) -> Iterator[tuple[int, int, Mean]]:
    """Those of the chosen points and layers, with step and time."""
    for step, time, event in source.frames.projections():
        try:
            means = list(means_of(event))
        except (KeyError, TypeError, ValueError) as error:
            raise not_a_recording(f"the projections of step {step} are damaged") from error
        for mean in means:
            if source.frames.selection.takes(source.names.points.get(mean.point, 0), mean.layer):
                yield step, time, mean
