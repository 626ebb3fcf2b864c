"""Recordings: docs/recording.md."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import sqlite3
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_tracer.errors import RecordError, TensorTracerError, unknown
from tensor_tracer.record import Record, decode_records
from tensor_tracer.selection import Pairs, Points, Ranges, pairs_of, select

_MOST_RANGES = 100  # in one condition: SQLite takes no more than 1,000 parts


class Recording:
    """One run of a recording, from `open_recording`. Reads while the run still writes."""

    def __init__(self, path: Path, run: str | None, check: bool) -> None:
        self._path, self._check = str(path), check
        uri = f"{path.resolve(strict=True).as_uri()}?mode=ro"
        with self._reading():
            self._file = sqlite3.connect(uri, uri=True)
            [(version,)] = self._file.execute("SELECT value FROM meta WHERE key = 'schema_version'")
            if version != "1":
                raise unknown("unsupported_version", f"schema version {version}", self._path)
            runs = {row[1]: row for row in self._file.execute("SELECT run, id, facts FROM runs")}
            if (run or len(runs) != 1) and run not in runs:
                names = ", ".join(runs) or "none"
                raise RecordError("which_run", f"the runs in it: {names}", self._path, 'name one: run="…"')
            self._run, name, facts = runs[run or next(iter(runs))]
            self.run = "".join(name)
            self.facts: dict[str, Any] = dict(json.loads(facts))
            rows = self._file.execute("SELECT flag, name FROM points WHERE run = ?", [self._run])
            self._points = {int(flag): "".join(name) for flag, name in rows}

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Anything that is wrong with the file is a RecordError."""
        try:
            yield
        except TensorTracerError:
            raise
        except (sqlite3.Error, ValueError, TypeError, OverflowError, RecursionError) as error:
            if "locked" in str(error):
                remedy = "wait until the run has ended, or ask its hub: connect(…).history()"
                text = "the hub of a run has this file for itself"
                raise RecordError("recording_in_use", text, self._path, remedy) from error
            remedy = "check it with `sqlite3 FILE 'PRAGMA integrity_check'`"
            raise RecordError("invalid_recording", str(error), self._path, remedy) from error

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def records(
        self, point: Points | None = None, layers: Ranges | None = None, steps: Ranges | None = None,
        entry: int | None = None,
    ) -> Iterator[Record]:  # fmt: skip
        """In order of steps."""
        chosen = select(point, layers, entry, self._points)
        flags = [(f, f) for f, n in self._points.items() if chosen.points is None or n in chosen.points]
        wanted = {
            "layer": chosen.layers, "step": pairs_of(steps, "steps"),
            "entry": None if entry is None else [(entry, entry)],
            "point": None if chosen.points is None else flags,
        }  # fmt: skip
        where = "".join(f" AND {self._between(name, pairs)}" for name, pairs in wanted.items())
        query = f"SELECT id FROM frames WHERE run = ?{where} ORDER BY step, id"
        # An open query would hold the log of a run that still writes, and sort all that it finds.
        with self._reading():
            found = array("q", (number for (number,) in self._file.execute(query, [self._run])))
        for number in found:
            yield from self._records_of(number)

    def _records_of(self, number: int) -> list[Record]:
        with self._reading():
            query = "SELECT record FROM frames WHERE id = ?"
            # None where the bound on the file's bytes took it meanwhile.
            rows = self._file.execute(query, [number]).fetchall()
            return [one for (record,) in rows for one in decode_records(record, self._check, self._points)]

    def _between(self, column: str, pairs: Pairs | None) -> str:
        if pairs is None:
            return "1"
        if len(pairs) <= _MOST_RANGES:
            return f"({' OR '.join(f'{column} BETWEEN {a} AND {b}' for a, b in pairs) or 0})"
        chosen = {n for first, last in pairs for n in range(first, last + 1)}
        self._file.create_function(f"is_{column}", 1, chosen.__contains__, deterministic=True)
        return f"is_{column}({column})"

    def scalars(self, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Steps and values; SQLite keeps NaN as NULL."""
        query = "SELECT step, value FROM scalars WHERE run = ? AND name = ? ORDER BY step"
        with self._reading():
            rows = self._file.execute(query, [self._run, name]).fetchall()
            steps = np.array([step for step, _ in rows], np.int64)
            values = np.array([value for _, value in rows], np.float64)
        if not rows:
            raise ValueError(f"scalars: there is no {name!r}; there is {', '.join(self.scalar_names())}")
        return steps, values

    def scalar_names(self) -> list[str]:
        query = "SELECT DISTINCT name FROM scalars WHERE run = ? ORDER BY name"
        with self._reading():
            return ["".join(name) for (name,) in self._file.execute(query, [self._run])]

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The audit trail: control, interventions, drops, log. `kind`: "control.pause", or
        "control" for all of control."""
        names = ("time_ns", "step", "kind", "session", "who", "detail")
        chosen = "run = ?1 AND (?2 IS NULL OR kind = ?2 OR kind LIKE ?2 || '.%')"
        query = f"SELECT {', '.join(names)} FROM events WHERE {chosen} ORDER BY id"
        with self._reading():
            found = self._file.execute(query, [self._run, kind])
            rows = (dict(zip(names, row, strict=True)) for row in found)
            return [row | {"detail": json.loads(row["detail"] or "null")} for row in rows]

    def to_pandas(
        self, point: Points | None = None, layers: Ranges | None = None, steps: Ranges | None = None
    ) -> Any:
        """A DataFrame: without a point of the scalars, one column each; with one of its records,
        one row each."""
        pandas = importlib.import_module("pandas")
        if point is None:
            series = {name: self.scalars(name) for name in self.scalar_names()}
            columns = {name: pandas.Series(values, steps) for name, (steps, values) in series.items()}
            return pandas.DataFrame(columns).rename_axis("step")
        fields = [f.name for f in dataclasses.fields(Record) if f.name != "payload"] + ["values"]
        records = self.records(point, layers, steps)
        return pandas.DataFrame([[getattr(r, n) for n in fields] for r in records], columns=fields)


def open_recording(path: str | Path, run: str | None = None, check: bool = True) -> Recording:
    """A recording (run.ttrec). `run`: the id, where the file holds several."""
    return Recording(Path(path), run, check)
