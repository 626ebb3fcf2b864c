"""Sends the numbers of a live run to a sink."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from typing import Any

from tensor_tracer.errors import ConnectionLost
from tensor_tracer.export.names import tag_of, words_of, words_of_mean
from tensor_tracer.readings import Mean, has_readings, means_of, readings_of
from tensor_tracer.record import Record
from tensor_tracer.run import Run
from tensor_tracer.selection import select
from tensor_tracer.sinks.sink import Alarm, Origin, Sink

CONNECTED = "connected"  # the line of `follow` that says so
_WAIT_SECONDS = 0.5
_PLAN_SECONDS = 0.05  # between two looks for a plan with readings
_FLUSH_SECONDS = 1.0


@dataclasses.dataclass
class Counts:
    """The number of things that a sink got."""

    steps: int = 0
    records: int = 0  # and means of projections, each layer and vector for itself
    alarms: int = 0


class Origins:
    """The names of records. Entries of the trace plan that would get one name get their number or data rank too."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._owners: dict[str, str] = {}  # of a tag: the record's kind

    def of(self, record: Record) -> Origin:
        facts = self._run.names
        prompts = facts.prompt_set(record.prompt_set)
        is_local = facts.is_rank_local(record.point)
        words = words_of(record.point, record.layer, record.direction, record.phase, prompts, record.compressor, is_local)
        mean_over = facts.mean_over(record.plan, record.entry)
        words += [(mean_over, "")] if mean_over else []
        kind = f"{facts.meaning(record.plan, record.entry)} {record.data_rank}"
        for more in ((), (("entry", str(record.entry)),), (("entry", str(record.entry)), ("data", str(record.data_rank)))):
            tag = tag_of([*words, *more])
            if self._owners.setdefault(tag, kind) == kind:
                break
        return Origin(tag, record.point, record.layer, record.direction, record.phase, prompts, record.compressor,
                      mean_over, layout=facts.layout(record.point) if is_local else "")  # fmt: skip


def _origin_of_mean(mean: Mean) -> Origin:
    place = (mean.point, mean.layer, "value", "eval", mean.prompts, "projection", mean.mean_over, mean.scale)
    return Origin(tag_of(words_of_mean(mean)), *place)


def follow(run: Run, sink: Sink, counts: Counts) -> None:
    """Until the run ends. Scalars of each step, statistics, projections and updates as the trace plan takes them, and
    alarms. First come the scalars of the last 2,000 steps, the newest record of each series, and the alarms that fire;
    means of projections begin with the next event. `counts` goes up meanwhile. Raises ConnectionLost if the hub is lost
    before the run's end."""
    origins, alarms, flush_at = Origins(run), _Alarms(sink, counts), 0.0
    with contextlib.suppress(ConnectionLost):  # the run has ended; its steps wait here
        for alarm in run.alarms():
            if alarm.get("state") == "firing":
                alarms.take({"change": "fired", "alarm": alarm, **alarm.get("last", {})})
    while True:
        is_over = run.has_ended
        for row in run.steps(timeout=0):
            values = {name: value for name, value in row.items() if name != "step" and isinstance(value, int | float)}
            sink.scalars(int(row["step"]), time.time_ns(), values)
            counts.steps += 1
        for event in run.alarm_changes(timeout=0):
            alarms.take(event)
        for event in run.waiting_projections():
            for mean in means_of(event):
                sink.readings(int(event["step"]), time.time_ns(), _origin_of_mean(mean), mean.readings)
                counts.records += 1
        if time.monotonic() >= flush_at:
            sink.flush()
            flush_at = time.monotonic() + _FLUSH_SECONDS
        for record in _records(run, is_over):
            if readings := readings_of(record, run.names):
                sink.readings(record.step, record.time, origins.of(record), readings)
                counts.records += 1
        if is_over:
            return


class _Alarms:
    """Tells the sink of each change once."""

    def __init__(self, sink: Sink, counts: Counts) -> None:
        self._sink, self._counts = sink, counts
        self._told: dict[str, Alarm] = {}

    def take(self, event: dict[str, Any]) -> None:
        if event["change"] not in ("fired", "cleared"):
            return
        name, value, is_firing = str(event["alarm"]["name"]), event.get("value"), event["change"] == "fired"
        number = float(value) if isinstance(value, int | float) else None
        alarm = Alarm(name, int(event["step"]), is_firing, str(event.get("message", "")), number)
        if self._told.get(name) != alarm:
            self._told[name] = alarm
            self._sink.alarm(time.time_ns(), alarm)
            self._counts.alarms += is_firing


def _records(run: Run, is_over: bool) -> Iterator[Record]:
    """Those that arrive in about half a second, of the entries that have readings in the plan in force; shorter if it
    has no such entry. `is_over`: all that wait here."""
    plan, end = _plan_of(run), time.monotonic() + _WAIT_SECONDS
    kinds = select(run.names, list(run.names.points)).kinds(run.names, plan)
    entries = [kind.entry for kind in kinds
               if has_readings(kind.point, kind.compressor, run.names.mean_over(plan, kind.entry))]  # fmt: skip
    try:
        # Without an entry, it asks for no records: if nobody takes them, the hub holds back the events too.
        for record in run.records(entry=entries, timeout=_WAIT_SECONDS if entries else _PLAN_SECONDS):
            yield record
            if not is_over and (time.monotonic() >= end or _plan_of(run) != plan):
                return
    except ConnectionLost:  # run.steps() raises it if the hub does not come back
        time.sleep(_PLAN_SECONDS)


def _plan_of(run: Run) -> int:
    return int(((run.facts or {}).get("plan") or {}).get("number", 0))
