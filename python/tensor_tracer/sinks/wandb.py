"""Weights & Biases."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from tensor_tracer.errors import TensorTracerError, missing_package
from tensor_tracer.readings import Bins, Reading
from tensor_tracer.sinks.sink import Alarm, Origin

_MAX_BINS = 512  # of wandb.Histogram
_OPEN_STEPS = 2  # newest steps whose row may still grow


class WandbSink:
    """One W&B run, by the package wandb and its settings (WANDB_MODE, WANDB_API_KEY, WANDB_ENTITY, …). The x axis of
    every curve is the training step. The values of a step are one row; a record that arrives more than two
    steps late gets a row with its step."""

    def __init__(self, project: str, name: str, facts: Mapping[str, Any]) -> None:
        try:
            self._wandb = importlib.import_module("wandb")
        except ImportError:
            raise missing_package("wandb", "follow --to wandb") from None
        try:
            self._run = self._wandb.init(project=project, name=name or facts.get("name"), config=dict(facts))
        except Exception as error:  # wandb raises several types
            raise _failed("W&B does not start a run", error) from error
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")
        self._rows: dict[int, dict[str, Any]] = {}

    def scalars(self, step: int, time_ns: int, values: Mapping[str, float]) -> None:
        self._row(step).update(values)

    def readings(self, step: int, time_ns: int, origin: Origin, readings: Sequence[Reading | Bins]) -> None:
        row = self._row(step)
        for one in readings:
            name = f"{origin.tag}/{one.name}"
            if isinstance(one, Reading):
                row[name] = one.value
            elif len(one.counts) <= _MAX_BINS:
                row[name] = self._wandb.Histogram(np_histogram=(one.counts, one.limits))

    def alarm(self, time_ns: int, alarm: Alarm) -> None:
        self._row(alarm.step)[f"alarms/{alarm.name}"] = int(alarm.is_firing)
        if alarm.is_firing:
            self._run.alert(title=f"alarm {alarm.name}", text=alarm.message or f"at step {alarm.step}")

    def flush(self) -> None:
        """W&B's own process sends."""

    def close(self) -> None:
        self._log_rows(before=None)
        try:
            self._run.finish()
        except Exception as error:
            raise _failed("W&B did not take everything", error) from error

    def _row(self, step: int) -> dict[str, Any]:
        if step not in self._rows:
            self._rows[step] = {}
            self._log_rows(before=max(self._rows) - _OPEN_STEPS + 1)
        return self._rows.setdefault(step, {})

    def _log_rows(self, before: int | None) -> None:
        for step in sorted(self._rows):
            if (before is None or step < before) and (row := self._rows[step]):
                self._run.log({"step": step} | row)
                del self._rows[step]


def _failed(text: str, error: Exception) -> TensorTracerError:
    remedy = "check WANDB_API_KEY and the network, or set WANDB_MODE=offline and later `wandb sync`"
    return TensorTracerError("sink", f"{text}: {str(error).partition(chr(10))[0]}", "--to wandb", remedy)
