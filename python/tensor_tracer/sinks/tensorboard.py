"""TensorBoard."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tensor_tracer.export.errors import cannot_write
from tensor_tracer.export.names import one_word
from tensor_tracer.export.tensorboard import EventFile
from tensor_tracer.readings import Bins, Reading
from tensor_tracer.sinks.sink import Alarm, Origin


class TensorBoardSink:
    """Appends to one event file in `folder`, which TensorBoard may read at the same time."""

    def __init__(self, folder: Path, run_id: str) -> None:
        # TensorBoard reads the files of a folder in the order of their names.
        self._path = folder / f"events.out.tfevents.{int(time.time())}.{one_word(run_id)}.{os.getpid()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = EventFile(self._path, time.time_ns())
        except OSError as error:
            raise cannot_write(self._path, error) from error

    def scalars(self, step: int, time_ns: int, values: Mapping[str, float]) -> None:
        self._add(step, time_ns, "", [Reading(name, value) for name, value in values.items()])

    def readings(self, step: int, time_ns: int, origin: Origin, readings: Sequence[Reading | Bins]) -> None:
        self._add(step, time_ns, f"{origin.tag}/", readings)

    def alarm(self, time_ns: int, alarm: Alarm) -> None:
        self._add(alarm.step, time_ns, "alarms/", [Reading(alarm.name, float(alarm.is_firing))])

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            raise cannot_write(self._path, error) from error

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            raise cannot_write(self._path, error) from error

    def _add(self, step: int, time_ns: int, prefix: str, readings: Sequence[Reading | Bins]) -> None:
        try:
            self._file.add(step, time_ns, prefix, readings)
        except OSError as error:
            raise cannot_write(self._path, error) from error
